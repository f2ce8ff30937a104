/* The functions of a module at each of their places: one file, mapped into the test, has all. */
#include "check.h"
#include "elf/function_names.h"
#include "elf_file.h"
#include "elf_object.h"
#include "own.h"
#include "section_file.h"
#include "tree.h"

#include <lzma.h>

enum { PACKED_MAX = 4096, NAMES_MAX = 16 };

static struct own own;
static struct tree tree;
static unsigned char packed[PACKED_MAX];

/* The mapped module: an object with .dynsym, and the sections that a test adds. */
static struct {
    struct section_file file;
    void *base;
    struct module module;
} mapped;

static size_t pack(const struct elf_file *inner)
{
    size_t used = 0;

    CHECK(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, NULL, (const void *)inner, sizeof *inner,
                                  packed, &used, sizeof packed) == LZMA_OK);
    return used;
}

static void begin(void)
{
    struct object object;

    object_make(&object, 0);
    memset(&mapped, 0, sizeof mapped);
    mapped.file.count = mapped.file.names_len = 1;
    section_file_append(&mapped.file, &object, sizeof object);
}

/* .symtab of one function, "je_own". */
static void add_symtab(void)
{
    const Elf64_Sym symbols[2] = {{0},
                                  {.st_name = 1,
                                   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                   .st_shndx = 1,
                                   .st_value = 0x40,
                                   .st_size = 8}};
    Elf64_Shdr *section =
        section_file_add(&mapped.file, ".symtab", SHT_SYMTAB, symbols, sizeof symbols);

    section->sh_link = (Elf64_Word)mapped.file.count;
    section_file_add(&mapped.file, ".strtab", SHT_STRTAB, "\0je_own", 8);
}

/* Like section_file_end, with the headers that the object has. */
static bool end(void)
{
    char path[TREE_PATH_MAX];
    struct object *object;
    Elf64_Ehdr header;
    Elf64_Phdr note;

    memcpy(&header, mapped.file.bytes, sizeof header);
    memcpy(&note, mapped.file.bytes + sizeof header, sizeof note);
    header.e_shentsize = sizeof(Elf64_Shdr);
    mapped.file.header = header;
    mapped.file.note = note;
    section_file_end(&mapped.file);
    object = (void *)mapped.file.bytes;
    object->phdrs[0].p_filesz = object->phdrs[0].p_memsz = mapped.file.len;
    CHECK(tree_write_bytes(&tree, "module", mapped.file.bytes, mapped.file.len));
    AUTO_CLOSE int fd = open(tree_name(&tree, "module", path), O_RDONLY | O_CLOEXEC);
    mapped.base = mmap(NULL, mapped.file.len, PROT_READ, MAP_PRIVATE, fd, 0);
    modules_free(&own.modules);
    if (!CHECK(mapped.base != MAP_FAILED) ||
        !CHECK(modules_load(&own.modules, &own.target, NULL) == FAULT_NONE))
        return false;
    memory_forget(&own.memory);
    mapped.module = *modules_at(&own.modules, (remote_addr)(uintptr_t)mapped.base);
    return true;
}

static void unmap(void)
{
    munmap(mapped.base, mapped.file.len);
    section_file_free(&mapped.file);
}

struct seen {
    char names[NAMES_MAX][32];
    uint64_t addresses[NAMES_MAX]; /* without the base of the module */
    size_t count, limit;
};

static bool note_one(void *ctx, const char *name, const struct symbol *symbol)
{
    struct seen *seen = ctx;

    if (!CHECK(seen->count < NAMES_MAX))
        return false;
    snprintf(seen->names[seen->count], sizeof seen->names[0], "%s", name);
    seen->addresses[seen->count++] = symbol->address - (uint64_t)(uintptr_t)mapped.base;
    return seen->count < seen->limit;
}

static bool has(const struct seen *seen, const char *name, uint64_t address)
{
    for (size_t i = 0; i < seen->count; i++)
        if (strcmp(seen->names[i], name) == 0)
            return seen->addresses[i] == address;
    return false;
}

/* The names that function_names_visit_file visits, and their place; SYMBOLS_PLACES: none. text "":
   all. */
static struct seen visit_file(const char *text, size_t limit, enum symbol_place *place)
{
    const struct name_pattern pattern = {NAME_ENDS, text, strlen(text)};
    const struct name_query query = {.patterns = &pattern, .count = 1};
    struct seen seen = {.limit = limit};
    struct function_names symbols;

    CHECK(function_names_open(&symbols, &mapped.module, &own.target, &own.memory));
    CHECK(symbols.file >= 0);
    if (!function_names_visit_file(&symbols, *text ? &query : NULL, note_one, &seen, place))
        *place = SYMBOLS_PLACES;
    function_names_close(&symbols);
    return seen;
}

static void test_none(void)
{
    static const struct name_pattern end_only = NAME_ENDS_WITH("_alpha");
    static const struct name_query query = {.patterns = &end_only, .count = 1};
    enum symbol_place place;
    struct function_names symbols;
    struct seen seen;

    begin();
    if (!end())
        return;
    seen = visit_file("", NAMES_MAX, &place);
    CHECK(place == SYMBOLS_PLACES && seen.count == 0);
    seen.limit = NAMES_MAX;
    CHECK(function_names_open(&symbols, &mapped.module, &own.target, &own.memory));
    CHECK(function_names_visit(&symbols, SYMBOLS_DYNSYM, &query, note_one, &seen));
    CHECK(seen.count == 1 && has(&seen, "beta_alpha", object_value(BETA)));
    CHECK(!function_names_visit(&symbols, SYMBOLS_SYMTAB, NULL, note_one, &seen));
    CHECK(!function_names_visit(&symbols, SYMBOLS_MINIDEBUG, NULL, note_one, &seen));
    CHECK(!function_names_visit(&symbols, SYMBOLS_DEBUGFILE, NULL, note_one, &seen));
    function_names_close(&symbols);
    unmap();
    mapped.module.start = mapped.module.end = 0;
    CHECK(!function_names_open(&symbols, &mapped.module, &own.target, &own.memory));
    function_names_close(&symbols);
}

/* The first place that exists, and no other. */
static void test_symtab_first(void)
{
    enum symbol_place place;
    struct elf_file inner;
    struct seen seen;

    begin();
    add_symtab();
    file_make(&inner);
    section_file_add(&mapped.file, ".gnu_debugdata", SHT_PROGBITS, packed, pack(&inner));
    if (!end())
        return;
    seen = visit_file("", NAMES_MAX, &place);
    CHECK(place == SYMBOLS_SYMTAB && seen.count == 1 && has(&seen, "je_own", 0x40));
    seen = visit_file("je_three", NAMES_MAX, &place);
    CHECK(place == SYMBOLS_SYMTAB && seen.count == 0);
    unmap();
}

/* .gnu_debugdata has names that .dynsym lacks: both, but not after the visitor has stopped. */
static void test_minidebug(void)
{
    enum symbol_place place;
    struct elf_file inner;
    struct seen seen;

    begin();
    file_make(&inner);
    inner.phdrs[0].p_vaddr = 0x500; /* a base of its own: prelink has moved the module */
    section_file_add(&mapped.file, ".gnu_debugdata", SHT_PROGBITS, packed, pack(&inner));
    if (!end())
        return;
    seen = visit_file("", NAMES_MAX, &place);
    CHECK(place == SYMBOLS_MINIDEBUG && seen.count == 4 + 4);
    CHECK(has(&seen, "je_one", 0x1000 - 0x500) && has(&seen, "je_three", 0x4000 - 0x500));
    CHECK(has(&seen, "alpha", object_value(ALPHA)) && has(&seen, "last", object_value(LAST)));
    seen = visit_file("", 4, &place);
    CHECK(seen.count == 4 && has(&seen, "je_three", 0x4000 - 0x500));
    seen = visit_file("", 5, &place);
    CHECK(seen.count == 5 && has(&seen, "alpha", object_value(ALPHA)));
    seen = visit_file("three", NAMES_MAX, &place);
    CHECK(place == SYMBOLS_MINIDEBUG && seen.count == 1);
    unmap();
}

/* By .gnu_debuglink, beside the module. */
static void test_debugfile(void)
{
    unsigned char link[16] = "m.debug";
    enum symbol_place place;
    struct elf_file debug;
    struct seen seen;

    begin();
    file_make(&debug);
    memset(&debug.note, 0, sizeof debug.note);
    debug.phdrs[0].p_type = debug.phdrs[1].p_type = PT_NULL;
    uint32_t checksum = lzma_crc32((const void *)&debug, sizeof debug, 0);
    memcpy(link + 8, &checksum, sizeof checksum);
    section_file_add(&mapped.file, ".gnu_debuglink", SHT_PROGBITS, link, 12);
    CHECK(tree_write_bytes(&tree, "m.debug", &debug, sizeof debug));
    if (!end())
        return;
    seen = visit_file("three", NAMES_MAX, &place);
    CHECK(place == SYMBOLS_DEBUGFILE && seen.count == 1 && has(&seen, "je_three", 0x4000));
    unmap();
}

int main(void)
{
    if (!CHECK(own_open(&own)) || !CHECK(tree_make(&tree)))
        return check_result();
    test_none();
    test_symtab_first();
    test_minidebug();
    test_debugfile();
    tree_remove(&tree);
    own_close(&own);
    return check_result();
}
