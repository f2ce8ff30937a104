/* Names of a string table larger than what is read of it at once. */
#include "check.h"
#include "elf/strtab.h"
#include "elf_file.h"

#include <sys/mman.h>

enum { TABLE = 3 << 20, GAP = 64 };

static char table[TABLE + 1];
static struct strtab strtab;

/* A table in a file behind so many other bytes. */
static void open_table_in(const char *bytes, size_t len, size_t window)
{
    int fd = memfd_create("strtab", MFD_CLOEXEC);
    struct sections sections = {.fd = fd, .file_size = GAP + len};
    Elf64_Shdr section = {.sh_type = SHT_STRTAB, .sh_offset = GAP, .sh_size = len};

    CHECK(fd >= 0 && pwrite(fd, bytes, len, GAP) == (ssize_t)len);
    CHECK(strtab_open(&strtab, &sections, &section, window));
}

static void open_table(const char *bytes, size_t len)
{
    open_table_in(bytes, len, STRTAB_BLOCK);
}

static void close_table(void)
{
    close(strtab.fd);
    strtab_close(&strtab);
}

static void put_name(size_t at, const char *name)
{
    memcpy(table + at, name, strlen(name) + 1);
}

static bool name_is(size_t at, const char *wanted)
{
    const char *name = strtab_name(&strtab, at);

    return name && strcmp(name, wanted) == 0;
}

/* Offsets of names: at the borders of what is read at once, and around them. */
static const size_t places[] = {
    1,
    1000,
    STRTAB_BLOCK - 13,
    STRTAB_BLOCK - 5,
    STRTAB_BLOCK + 30,
    STRTAB_BLOCK + STRTAB_BLOCK / 2 - 2,
    2 * STRTAB_BLOCK - 1,
    2 * STRTAB_BLOCK + 40,
    7 * STRTAB_BLOCK - 3,
    TABLE - 8,
};

/* At each of the places a name of its own, of 7 bytes at most. */
static void place_names(const char *stem)
{
    char name[16];

    memset(table, 0, sizeof table);
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(name, sizeof name, "%s%zu", stem, i);
        put_name(places[i], name);
    }
}

static void test_names(size_t window)
{
    char name[16];

    place_names("n_");
    open_table_in(table, TABLE, window);
    for (size_t turn = 0; turn < 3; turn++) /* forward, back, anyhow */
        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
            size_t n = turn == 0   ? i
                       : turn == 1 ? ARRAY_LEN(places) - 1 - i
                                   : i * 7 % ARRAY_LEN(places);
            snprintf(name, sizeof name, "n_%zu", n);
            CHECK(name_is(places[n], name) && name_is(places[n] + 1, name + 1));
        }
    CHECK(name_is(0, "") && name_is(TABLE - 1, ""));
    CHECK(!strtab_name(&strtab, TABLE) && !strtab_name(&strtab, UINT64_MAX));
    CHECK(!strtab_exhausted(&strtab));
    close_table();
}

/* It becomes shorter while it is read. */
static void test_cut(size_t window)
{
    place_names("n_");
    open_table_in(table, TABLE, window);
    CHECK(ftruncate(strtab.fd, GAP + STRTAB_BLOCK) == 0);
    CHECK(!strtab_name(&strtab, TABLE / 2) && !strtab_name(&strtab, TABLE - 1));
    CHECK(name_is(1, "n_0"));
    close_table();
}

/* The end of the table is one of the name; SYMBOL_NAME_MAX bytes are too many. */
static void test_lengths(void)
{
    memset(table, 'a', sizeof table);
    table[SYMBOL_NAME_MAX - 1] = '\0';
    table[2 * SYMBOL_NAME_MAX] = '\0';
    open_table(table, TABLE);
    const char *name = strtab_name(&strtab, 0);
    CHECK(name && strlen(name) == SYMBOL_NAME_MAX - 1);
    CHECK(!strtab_name(&strtab, SYMBOL_NAME_MAX)); /* of exactly that many */
    name = strtab_name(&strtab, SYMBOL_NAME_MAX + 1);
    CHECK(name && strlen(name) == SYMBOL_NAME_MAX - 1);
    CHECK(!strtab_name(&strtab, TABLE - SYMBOL_NAME_MAX));
    name = strtab_name(&strtab, TABLE - SYMBOL_NAME_MAX + 1);
    CHECK(name && strlen(name) == SYMBOL_NAME_MAX - 1);
    CHECK(name_is(TABLE - 2, "aa"));
    close_table();
}

/* What is looked at is bounded, however often a name is asked for. */
static void test_exhausted(void)
{
    size_t asked = 0;

    memset(table, 'a', sizeof table);
    table[SYMBOL_NAME_MAX - 1] = '\0';
    open_table(table, TABLE);
    while (asked < 40000 && strtab_name(&strtab, 0))
        asked++;
    CHECK(asked > 16000 && asked < 17000 && strtab_exhausted(&strtab));
    CHECK(!strtab_name(&strtab, TABLE - 1));
    close_table();
}

static void test_refused(void)
{
    struct sections sections = {.fd = -1, .file_size = 4ull << 30};
    Elf64_Shdr section = {.sh_type = SHT_STRTAB};

    CHECK(!strtab_open(&strtab, &sections, &section, STRTAB_BLOCK));
    strtab_close(&strtab);
    section.sh_size = STRTAB_MAX + 1ull;
    CHECK(!strtab_open(&strtab, &sections, &section, STRTAB_BLOCK));
    strtab_close(&strtab);
    section.sh_size = 5ull << 30;
    CHECK(!strtab_open(&strtab, &sections, &section, STRTAB_BLOCK));
    strtab_close(&strtab);
}

/* The offsets from which a name contains part, compared with every offset by itself. */
static void compare_with_all(const char *part)
{
    struct strtab_spans spans;
    size_t wrong = 0;
    const char *hit = NULL, *nul = NULL;

    CHECK(strtab_find(&strtab, part, &spans));
    for (size_t at = TABLE; at-- > 0;) {
        if (table[at] == '\0')
            nul = table + at;
        if (strncmp(table + at, part, strlen(part)) == 0)
            hit = table + at;
        bool holds = hit && (!nul || hit < nul);
        wrong += holds != strtab_spans_hold(&spans, at);
    }
    CHECK(wrong == 0);
    CHECK(!strtab_spans_hold(&spans, TABLE) && !strtab_spans_hold(&spans, UINT64_MAX));
    free(spans.list);
}

static void test_find(void)
{
    struct strtab_spans spans;

    place_names("part");
    put_name(500, "a part of one and part of it again");
    put_name(600, "parpart");
    put_name(700, "par");
    put_name(704, "t");
    open_table(table, TABLE);
    compare_with_all("part");
    compare_with_all("t");
    CHECK(strtab_find(&strtab, "part", &spans) && spans.count == ARRAY_LEN(places) + 2);
    free(spans.list);
    CHECK(strtab_find(&strtab, "parted", &spans) && spans.count == 0);
    CHECK(!strtab_spans_hold(&spans, 0));
    free(spans.list);
    CHECK(!strtab_find(&strtab, "", &spans));
    close_table();
}

/* One name of megabytes, all of it parts: linear, not quadratic. Names without number. */
static void test_find_hostile(void)
{
    struct strtab_spans spans;

    for (size_t i = 0; i < TABLE; i++)
        table[i] = "part"[i % 4];
    open_table(table, TABLE);
    CHECK(strtab_find(&strtab, "part", &spans) && spans.count >= 1);
    CHECK(spans.count <= TABLE / STRTAB_BLOCK + 1 && strtab_spans_hold(&spans, 0));
    free(spans.list);
    close_table();
    for (size_t i = 0; i < TABLE; i++)
        table[i] = "part"[i % 5];
    open_table(table, TABLE);
    CHECK(!strtab_find(&strtab, "part", &spans) && spans.count == STRTAB_SPANS_MAX);
    free(spans.list);
    close_table();
}

int main(void)
{
    for (size_t window = STRTAB_BLOCK; window <= STRTAB_WINDOW; window *= 4) {
        test_names(window);
        test_cut(window);
    }
    test_lengths();
    test_exhausted();
    test_refused();
    test_find();
    test_find_hostile();
    return check_result();
}
