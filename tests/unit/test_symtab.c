/* .symtab and the build-id of files, intact and damaged. */
#include "check.h"
#include "elf/sections.h"
#include "elf_file.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { BIAS = 0x10000000 };

struct visit {
    size_t count, limit;
    unsigned indices; /* bit i: symbol i is correct */
};

static bool visit_one(void *ctx, const char *name, const struct symbol *symbol)
{
    static const char *const names[FILE_SYMBOLS] = {"", "je_one", "other", "two_je_", "je_three"};
    struct visit *visit = ctx;

    visit->count++;
    for (unsigned i = 1; i < FILE_SYMBOLS; i++)
        if (strcmp(name, names[i]) == 0 && symbol->address == BIAS + 0x1000ull * i &&
            symbol->size == 16 * i && symbol->type == STT_FUNC)
            visit->indices |= 1u << i;
    return visit->count < visit->limit;
}

enum { UNREADABLE = 1u << 31, WRONG = 1u << 30 };

/* The symbols visited in a file of len bytes, of names with that end ("": all). */
static unsigned visited_of(const void *bytes, size_t len, const char *text, size_t limit)
{
    const struct name_pattern pattern = {NAME_ENDS, text, strlen(text)};
    const struct name_query query = {.patterns = &pattern, .count = 1};
    struct visit visit = {0, limit, 0};
    AUTO_CLOSE int fd = file_put(bytes, len);

    if (!symtab_visit(fd, BIAS, *text ? &query : NULL, visit_one, &visit))
        return visit.count ? WRONG : UNREADABLE;
    return visit.count == (size_t)__builtin_popcount(visit.indices) ? visit.indices : WRONG;
}

static unsigned visited(const struct elf_file *file, const char *end)
{
    return visited_of(file, sizeof *file, end, SIZE_MAX);
}

static void test_whole(void)
{
    struct elf_file file;

    file_make(&file);
    CHECK(visited(&file, "") == (1 << 1 | 1 << 2 | 1 << 3 | 1 << 4));
    CHECK(visited(&file, "e") == (1 << 1 | 1 << 4));
    CHECK(visited(&file, "_three") == 1 << 4);
    CHECK(visited(&file, "other") == 1 << 2);
    CHECK(visited(&file, "another") == 0 && visited(&file, "two") == 0);
    CHECK(visited_of(&file, sizeof file, "e", 1) == 1 << 1);
    CHECK(visited_of(&file, sizeof file, "e", 2) == (1 << 1 | 1 << 4));
}

/* Patterns of each kind, alone and together. */
static void test_queries(void)
{
    static const struct {
        struct name_pattern patterns[2];
        size_t count;
        unsigned wanted;
    } rows[] = {
        {{NAME_ENDS_WITH("other"), NAME_ENDS_WITH("_one")}, 2, 1 << 1 | 1 << 2},
        {{NAME_ENDS_WITH("her"), NAME_ENDS_WITH("other")}, 2, 1 << 2},
        {{NAME_BEGINS_WITH("je_")}, 1, 1 << 1 | 1 << 4},
        {{NAME_BEGINS_WITH("o")}, 1, 1 << 2},
        {{NAME_IS("one")}, 1, 0},
        {{NAME_IS("je_one")}, 1, 1 << 1},
        {{NAME_ENDS_WITH("e"), NAME_BEGINS_WITH("two")}, 2, 1 << 1 | 1 << 3 | 1 << 4},
    };
    struct elf_file file;

    file_make(&file);
    AUTO_CLOSE int fd = file_put(&file, sizeof file);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct visit visit = {0, SIZE_MAX, 0};
        const struct name_query query = {.patterns = rows[i].patterns, .count = rows[i].count};
        CHECK(symtab_visit(fd, BIAS, &query, visit_one, &visit));
        CHECK(visit.indices == rows[i].wanted);
    }
}

/* Only defined functions. */
static void test_kinds(void)
{
    struct elf_file file;

    file_make(&file);
    file.symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    file.symbols[2].st_shndx = SHN_UNDEF;
    file.symbols[3].st_value = 0;
    CHECK(visited(&file, "") == 1 << 4);
    file.symbols[4].st_info = ELF64_ST_INFO(STB_WEAK, STT_FUNC);
    CHECK(visited(&file, "") == 1 << 4);
}

static bool visit_data(void *ctx, const char *name, const struct symbol *symbol)
{
    size_t *count = ctx;

    ++*count;
    return CHECK(strcmp(name, "je_one") == 0 && symbol->address == BIAS + 0x1000 &&
                 symbol->size == 16 && symbol->type == STT_OBJECT);
}

struct others {
    unsigned named, nameless;
};

static bool visit_other(void *ctx, const char *name, const struct symbol *symbol)
{
    struct others *others = ctx;

    *(name ? &others->named : &others->nameless) |= 1u << ((symbol->address - BIAS) / 0x1000);
    return CHECK(!name || strncmp(name, "je_", 3) == 0);
}

/* The others without their names, also if there are too many places to find them. */
static void test_others(void)
{
    static const struct name_pattern begins = NAME_BEGINS_WITH("je_");
    static const struct name_query query = {.patterns = &begins, .count = 1, .others = true};
    enum { MANY = 4 << STRTAB_SPANS_BITS };
    AUTO_FREE char *strings = malloc(MANY);
    struct elf_file file;

    if (!CHECK(strings != NULL))
        return;
    file_make(&file);
    memcpy(strings, file.strings, sizeof file.strings);
    for (size_t i = sizeof file.strings; i < MANY; i++)
        strings[i] = "_je_"[i % 4];
    for (unsigned turn = 0; turn < 2; turn++) {
        struct others others = {0};
        AUTO_CLOSE int fd = file_put(&file, sizeof file);
        CHECK(write(fd, strings, MANY) == MANY);
        CHECK(symtab_visit(fd, BIAS, &query, visit_other, &others));
        CHECK(others.named == (1 << 1 | 1 << 4) && others.nameless == (1 << 2 | 1 << 3));
        file.sections[3].sh_offset = sizeof file;
        file.sections[3].sh_size = MANY;
    }
}

/* Functions and data. */
static void test_all(void)
{
    static const struct name_pattern ends[] = {NAME_ENDS_WITH("one"), NAME_ENDS_WITH("e_one")};
    const struct name_query query = {.patterns = ends, .count = ARRAY_LEN(ends)};
    struct visit visit = {0, SIZE_MAX, 0};
    struct elf_file file;
    size_t count = 0;

    file_make(&file);
    file.symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    AUTO_CLOSE int fd = file_put(&file, sizeof file);
    CHECK(symtab_visit_all(fd, BIAS, &query, visit_data, &count) && count == 1);
    CHECK(symtab_visit_all(fd, BIAS, NULL, visit_one, &visit) && visit.count == 4);
    CHECK(visit.indices == (1 << 2 | 1 << 3 | 1 << 4));
    visit = (struct visit){0, SIZE_MAX, 0};
    CHECK(symtab_visit(fd, BIAS, NULL, visit_one, &visit) && visit.count == 3);
}

static void test_name_offsets(void)
{
    struct elf_file file;

    file_make(&file);
    file.symbols[1].st_name = sizeof file.strings;
    file.symbols[2].st_name = UINT32_MAX;
    CHECK(visited(&file, "") == (1 << 3 | 1 << 4));
    file_make(&file);
    file.sections[3].sh_size = 22 + 8; /* the last name without its NUL */
    CHECK(visited(&file, "") == (1 << 1 | 1 << 2 | 1 << 3 | 1 << 4));
    file.sections[3].sh_size = 22;
    CHECK(visited(&file, "") == (1 << 1 | 1 << 2 | 1 << 3));
}

/* Cut anywhere: every byte that counts is in the file, or the result is an error. */
static void test_truncated(void)
{
    struct elf_file file;

    file_make(&file);
    for (size_t n = 0; n < sizeof file; n++)
        CHECK(visited_of(&file, n, "", SIZE_MAX) == UNREADABLE);
}

static void test_headers(void)
{
    static const struct {
        size_t offset, size;
        uint64_t value;
    } rows[] = {
        {EI_MAG1, 1, 'e'},
        {EI_CLASS, 1, ELFCLASS32},
        {offsetof(Elf64_Ehdr, e_shoff), 8, 0},
        {offsetof(Elf64_Ehdr, e_shoff), 8, UINT64_MAX},
        {offsetof(Elf64_Ehdr, e_shoff), 8, INT64_MAX - 64},
        {offsetof(Elf64_Ehdr, e_shoff), 8, 1 << 20},
        {offsetof(Elf64_Ehdr, e_shentsize), 2, 40},
        {offsetof(Elf64_Ehdr, e_shnum), 2, 2}, /* .symtab is the third */
        {offsetof(Elf64_Ehdr, e_shnum), 2, 3}, /* its strings the fourth */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct elf_file file;
        file_make(&file);
        memcpy((char *)&file + rows[i].offset, &rows[i].value, rows[i].size);
        CHECK(visited(&file, "") == UNREADABLE);
    }
}

/* The number of sections in section 0 (ELF, "extended numbering"). */
static void test_extended_count(void)
{
    struct elf_file file;

    file_make(&file);
    file.header.e_shnum = 0;
    CHECK(visited(&file, "") == UNREADABLE);
    file.sections[0].sh_size = FILE_SECTIONS;
    CHECK(visited(&file, "_three") == 1 << 4);
    file.sections[0].sh_size = FILE_SECTIONS - 1;
    CHECK(visited(&file, "") == UNREADABLE);
    file.sections[0].sh_size = UINT64_MAX;
    CHECK(visited(&file, "") == UNREADABLE);
    file.sections[0].sh_size = 1 << 20;
    CHECK(visited(&file, "_three") == 1 << 4);
    file.sections[0].sh_size++;
    CHECK(visited(&file, "") == UNREADABLE);
}

static void test_sections(void)
{
    static const struct {
        unsigned section;
        size_t offset, size;
        uint64_t value;
    } rows[] = {
        {2, offsetof(Elf64_Shdr, sh_link), 4, FILE_SECTIONS},
        {2, offsetof(Elf64_Shdr, sh_link), 4, UINT32_MAX},
        {2, offsetof(Elf64_Shdr, sh_offset), 8, UINT64_MAX},
        {2, offsetof(Elf64_Shdr, sh_offset), 8, sizeof(struct elf_file) - 8},
        {2, offsetof(Elf64_Shdr, sh_size), 8, UINT64_MAX},
        {2, offsetof(Elf64_Shdr, sh_size), 8, sizeof(struct elf_file)},
        {2, offsetof(Elf64_Shdr, sh_type), 4, SHT_DYNSYM},
        {2, offsetof(Elf64_Shdr, sh_flags), 8, SHF_COMPRESSED},
        {3, offsetof(Elf64_Shdr, sh_flags), 8, SHF_COMPRESSED},
        {3, offsetof(Elf64_Shdr, sh_offset), 8, sizeof(struct elf_file) + 1},
        {3, offsetof(Elf64_Shdr, sh_size), 8, UINT64_MAX},
        {3, offsetof(Elf64_Shdr, sh_size), 8, 1ull << 40},
        {3, offsetof(Elf64_Shdr, sh_size), 8, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct elf_file file;
        file_make(&file);
        memcpy((char *)&file.sections[rows[i].section] + rows[i].offset, &rows[i].value,
               rows[i].size);
        CHECK(visited(&file, "") == UNREADABLE);
    }
}

/* Part of an entry at the end is no symbol. */
static void test_odd_size(void)
{
    struct elf_file file;

    file_make(&file);
    file.sections[2].sh_size -= 1;
    CHECK(visited(&file, "") == (1 << 1 | 1 << 2 | 1 << 3));
    file.sections[2].sh_size = 0;
    CHECK(visited(&file, "") == 0);
}

struct origin {
    bool local;
    const char *file; /* copied: it lasts as long as the visit */
    char text[16];
};

static bool visit_origin(void *ctx, const char *name, const struct symbol *symbol)
{
    struct origin *origin = ctx;

    if (strcmp(name, "je_three") != 0)
        return true;
    origin->local = symbol->local;
    origin->file = symbol->file ? origin->text : NULL;
    snprintf(origin->text, sizeof origin->text, "%s", symbol->file ? symbol->file : "");
    return false;
}

static struct origin origin_of(const struct elf_file *file)
{
    struct origin origin = {0};
    AUTO_CLOSE int fd = file_put(file, sizeof *file);

    CHECK(symtab_visit(fd, 0, NULL, visit_origin, &origin));
    return origin;
}

/* A local symbol belongs to the last file symbol before it; a global one to none. */
static void test_origin(void)
{
    struct elf_file file;

    file_make(&file);
    CHECK(origin_of(&file).local && !origin_of(&file).file);
    file.symbols[1].st_info = ELF64_ST_INFO(STB_LOCAL, STT_FILE);
    CHECK(strcmp(origin_of(&file).text, "je_one") == 0);
    file.symbols[2].st_info = ELF64_ST_INFO(STB_LOCAL, STT_FILE);
    CHECK(strcmp(origin_of(&file).text, "other") == 0);
    file.symbols[4].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    CHECK(!origin_of(&file).local && !origin_of(&file).file);
}

static bool count_one(void *ctx, const char *name, const struct symbol *symbol)
{
    size_t *count = ctx;

    CHECK(strcmp(name, "je_one") == 0 && symbol->address == BIAS + *count + 1);
    ++*count;
    return true;
}

/* More symbols than one read returns. */
static void test_many(void)
{
    enum { MANY = 40001 };
    static const struct name_pattern begins = NAME_BEGINS_WITH("je");
    static const struct name_query query = {.patterns = &begins, .count = 1};
    AUTO_FREE Elf64_Sym *symbols = calloc(MANY, sizeof *symbols);
    struct elf_file file;
    size_t count = 0;

    if (!CHECK(symbols != NULL))
        return;
    file_make(&file);
    file.sections[2].sh_offset = sizeof file;
    file.sections[2].sh_size = MANY * sizeof *symbols;
    for (size_t i = 0; i < MANY; i++)
        symbols[i] = (Elf64_Sym){.st_name = 1,
                                 .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                                 .st_shndx = 1,
                                 .st_value = i + 1};
    AUTO_CLOSE int fd = file_put(&file, sizeof file);
    CHECK(write(fd, symbols, MANY * sizeof *symbols) == (ssize_t)(MANY * sizeof *symbols));
    CHECK(symtab_visit(fd, BIAS, &query, count_one, &count) && count == MANY);
}

static bool build_id_of(const struct elf_file *file, size_t len, struct build_id *out)
{
    AUTO_CLOSE int fd = file_put(file, len);
    return file_build_id(fd, out);
}

static void test_build_id(void)
{
    struct elf_file file;
    const size_t end = offsetof(struct elf_file, note) + sizeof file.note;
    struct build_id id;

    file_make(&file);
    CHECK(build_id_of(&file, end, &id));
    CHECK(id.len == sizeof file.note.desc && memcmp(id.bytes, file.note.desc, id.len) == 0);
    for (size_t n = 0; n < end; n++)
        CHECK(!build_id_of(&file, n, &id));
    file.phdrs[1].p_offset = UINT64_MAX;
    CHECK(!build_id_of(&file, end, &id));
    file.phdrs[1].p_offset = INT64_MAX;
    CHECK(!build_id_of(&file, end, &id));
    file_make(&file);
    file.phdrs[1].p_filesz = 1ull << 40;
    CHECK(!build_id_of(&file, end, &id));
    file_make(&file);
    file.header.e_phnum = IMAGE_PHDRS_MAX + 1;
    CHECK(!build_id_of(&file, end, &id));
    file_make(&file);
    file.header.e_phoff = UINT64_MAX;
    CHECK(!build_id_of(&file, end, &id));
}

static void test_no_file(void)
{
    struct visit visit = {0, 1, 0};
    struct build_id id;
    int pipes[2];

    CHECK(!symtab_visit(-1, 0, NULL, visit_one, &visit) && !file_build_id(-1, &id));
    if (!CHECK(pipe(pipes) == 0))
        return;
    CHECK(!symtab_visit(pipes[0], 0, NULL, visit_one, &visit) && !file_build_id(pipes[0], &id));
    close(pipes[0]);
    close(pipes[1]);
}

static bool count_any(void *ctx, const char *name, const struct symbol *symbol)
{
    size_t *count = ctx;

    *count += strlen(name) < SYMBOL_NAME_MAX && symbol->type == STT_FUNC;
    return true;
}

/* Overwrites numbers in headers, symbols and names until it is ended, or its parent is. */
static void keep_changing(int fd, const struct elf_file *file)
{
    static const uint64_t numbers[] = {0, 1, UINT32_MAX, UINT64_MAX, 1ull << 40, 64, 5, 2};
    const char *bytes = (const char *)file;
    uint64_t random = 88172645463325252;
    off_t at = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (pwrite(fd, bytes + at, 8, at) == 8) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        at = (off_t)(random % (sizeof *file / 8) * 8);
        if (pwrite(fd, &numbers[random >> 61], 8, at) != 8)
            break;
        if ((random >> 52 & 63) == 0 &&
            (ftruncate(fd, at) || pwrite(fd, file, sizeof *file, 0) < 0))
            break;
    }
    _exit(1);
}

/* A file that changes while it is read: any result, but within bounds. */
static void test_changing(void)
{
    static const struct name_pattern begins = NAME_BEGINS_WITH("je_");
    static const struct name_query query = {.patterns = &begins, .count = 1};
    struct elf_file file;
    size_t count = 0, good = 0;

    file_make(&file);
    AUTO_CLOSE int fd = file_put(&file, sizeof file);
    pid_t child = fork();
    if (child == 0)
        keep_changing(fd, &file);
    if (!CHECK(child > 0))
        return;
    size_t i = 0;
    const uint64_t until = clock_now() + 10000000000;
    for (; i < 20000 || ((!good || good == i) && clock_now() < until); i++) {
        struct build_id id;
        good += symtab_visit(fd, BIAS, i % 2 ? &query : NULL, count_any, &count);
        CHECK(!file_build_id(fd, &id) || id.len <= BUILD_ID_MAX);
    }
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(good > 0 && good < i && count > 0);
}

int main(void)
{
    test_whole();
    test_queries();
    test_others();
    test_kinds();
    test_all();
    test_name_offsets();
    test_truncated();
    test_headers();
    test_extended_count();
    test_sections();
    test_odd_size();
    test_origin();
    test_many();
    test_build_id();
    test_no_file();
    test_changing();
    return check_result();
}
