/* Names of a string table larger than one block of reading. */
#include "check.h"
#include "elf/sections.h"
#include "elf_file.h"

#include <sys/mman.h>

enum { TABLE = 3 << 20, GAP = 64 };

static char table[TABLE + 1];
static struct strtab strtab;

/* A table in a file, behind that many other bytes. */
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

/* Offsets of names: at the borders of blocks, and around them. */
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

/* The file becomes shorter while it is read. */
static void test_cut(size_t window)
{
    place_names("n_");
    open_table_in(table, TABLE, window);
    CHECK(ftruncate(strtab.fd, GAP + STRTAB_BLOCK) == 0);
    CHECK(!strtab_name(&strtab, TABLE / 2) && !strtab_name(&strtab, TABLE - 1));
    CHECK(name_is(1, "n_0"));
    close_table();
}

/* The end of the table also ends a name; SYMBOL_NAME_MAX bytes are too many. */
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

/* The bytes read are limited, however often a name is requested. */
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

/* The offsets of the wanted names, compared with a check of every offset. */
static void compare_with_all(const struct name_query *query)
{
    struct strtab_spans spans;
    size_t wrong = 0;

    CHECK(strtab_find(&strtab, query, &spans));
    for (size_t at = TABLE, end = TABLE; at-- > 0;) {
        if (table[at] == '\0')
            end = at;
        bool wanted = name_matches(query, table + at, end - at);
        wrong += wanted != strtab_spans_hold(&spans, at);
    }
    CHECK(wrong == 0);
    CHECK(!strtab_spans_hold(&spans, TABLE) && !strtab_spans_hold(&spans, UINT64_MAX));
    free(spans.list);
}

static const struct name_pattern part_at[] = {NAME_ENDS_WITH("part"), NAME_BEGINS_WITH("part"),
                                              NAME_IS("part")};
static const struct name_query ending = {.patterns = part_at, .count = 1};
static const struct name_query beginning = {.patterns = part_at + 1, .count = 1};
static const struct name_query whole = {.patterns = part_at + 2, .count = 1};

/* "part" at the ends of blocks, and elsewhere. */
static void place_parts(void)
{
    memset(table, 0, sizeof table);
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        put_name(places[i], i % 2 ? "a_part" : "part_a");
    put_name(500, "part of one and part of it again, apart");
    put_name(600, "parpart");
    put_name(700, "par");
    put_name(704, "t");
    put_name(STRTAB_BLOCK * 4 - 2, "part");
    put_name(STRTAB_BLOCK * 5 - 4, "part");
    memset(table + STRTAB_BLOCK * 9 - 3000, 'x', 6000);
    memcpy(table + STRTAB_BLOCK * 9 - 4, "partpart", 8);
}

static void test_find(void)
{
    static const struct name_pattern patterns[] = {
        NAME_ENDS_WITH("part"), NAME_BEGINS_WITH("pa"), NAME_ENDS_WITH("rt"),
        NAME_IS("t"),           NAME_IS("apart"),       NAME_BEGINS_WITH("f"),
    };
    static const struct name_query several = {.patterns = patterns, .count = ARRAY_LEN(patterns)};
    static const struct name_pattern others[] = {NAME_ENDS_WITH("parted"),
                                                 NAME_BEGINS_WITH("depart"), NAME_IS("p")};
    static const struct name_query none = {.patterns = others, .count = ARRAY_LEN(others)};
    struct strtab_spans spans;

    place_parts();
    open_table(table, TABLE);
    compare_with_all(&ending);
    compare_with_all(&beginning);
    compare_with_all(&whole);
    compare_with_all(&several);
    CHECK(strtab_find(&strtab, &ending, &spans) && spans.count == ARRAY_LEN(places) / 2 + 4);
    free(spans.list);
    CHECK(strtab_find(&strtab, &none, &spans) && spans.count == 0);
    CHECK(!strtab_spans_hold(&spans, 0));
    free(spans.list);
    close_table();
    memcpy(table + TABLE - 4, "part", 4); /* the end of the table also ends a name */
    open_table(table, TABLE);
    compare_with_all(&several);
    close_table();
}

/* One name of megabytes, all of it parts: linear, not quadratic. Very many names. */
static void test_find_hostile(void)
{
    struct strtab_spans spans;

    for (size_t i = 0; i < TABLE; i++)
        table[i] = "part"[i % 4];
    open_table(table, TABLE);
    CHECK(strtab_find(&strtab, &ending, &spans) && spans.count == 1);
    CHECK(strtab_spans_hold(&spans, TABLE - SYMBOL_NAME_MAX));
    free(spans.list);
    CHECK(strtab_find(&strtab, &beginning, &spans));
    CHECK(spans.count <= SYMBOL_NAME_MAX && strtab_spans_hold(&spans, TABLE - 4));
    free(spans.list);
    close_table();
    for (size_t i = 0; i < TABLE; i++)
        table[i] = "part"[i % 5];
    open_table(table, TABLE);
    CHECK(!strtab_find(&strtab, &ending, &spans) && spans.count == STRTAB_SPANS_MAX);
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
