#include "elf/symtab.h"
#include "base/interruptions.h"

#include <string.h>

enum { CHUNK_SYMBOLS = 16384, FILE_NAME_MAX = 4096 };

struct search {
    struct strtab *names;
    const struct name_query *query; /* NULL: all names */
    struct strtab_spans spans;      /* where the matching names are, if known */
    bool known;
    unsigned types; /* bit 1 << STT_* */
    uint64_t bias;
    symbol_visitor visit;
    void *ctx;
    /*
     * The last STT_FILE symbol: the local symbols after it belong to that file (ELF, "Symbol
     * Table").
     */
    bool has_file, file_read;
    uint32_t file_at;
    char file[FILE_NAME_MAX];
};

static bool find_tables(int fd, uint32_t table, struct sections *sections, Elf64_Shdr *symbols,
                        Elf64_Shdr *strings)
{
    return sections_open(sections, fd) && section_of_type(sections, table, symbols) &&
           section_at(sections, symbols->sh_link, strings) && section_in_file(sections, symbols) &&
           !(symbols->sh_flags & SHF_COMPRESSED) && !(strings->sh_flags & SHF_COMPRESSED) &&
           symbols->sh_size / sizeof(Elf64_Sym) <= SYMTAB_SYMBOLS_MAX;
}

/* Reads the file's name only when it is needed: a search by name needs few. */
static const char *source_file(struct search *search)
{
    if (!search->has_file)
        return NULL;
    if (!search->file_read) {
        const char *name = strtab_name(search->names, search->file_at);
        size_t n = name ? strnlen(name, FILE_NAME_MAX) : 0;
        search->has_file = name && n < FILE_NAME_MAX;
        search->file_read = true;
        if (search->has_file)
            memcpy(search->file, name, n + 1);
    }
    return search->has_file ? search->file : NULL;
}

static void remember_file(struct search *search, const Elf64_Sym *sym)
{
    search->has_file = true;
    search->file_read = false;
    search->file_at = sym->st_name;
}

static bool visit_entry(struct search *search, const Elf64_Sym *sym)
{
    struct symbol symbol = {
        .address = sym->st_value + search->bias,
        .size = sym->st_size,
        .type = ELF64_ST_TYPE(sym->st_info),
        .local = ELF64_ST_BIND(sym->st_info) == STB_LOCAL,
    };
    const char *name;

    if (symbol.type == STT_FILE)
        remember_file(search, sym);
    if (!(search->types >> symbol.type & 1) || sym->st_shndx == SHN_UNDEF || !sym->st_value ||
        (search->known && !search->query->others &&
         !strtab_spans_hold(&search->spans, sym->st_name)))
        return true;
    symbol.file = symbol.local ? source_file(search) : NULL;
    if (search->known && !strtab_spans_hold(&search->spans, sym->st_name))
        return search->visit(search->ctx, NULL, &symbol);
    name = strtab_name(search->names, sym->st_name);
    if (!name)
        return true;
    if (search->query && !name_matches(search->query, name, strlen(name)))
        return !search->query->others || search->visit(search->ctx, NULL, &symbol);
    return search->visit(search->ctx, name, &symbol);
}

/* Returns false if a symbol could not be read. */
static bool visit_entries(int fd, const Elf64_Shdr *section, struct search *search)
{
    uint64_t count = section->sh_size / sizeof(Elf64_Sym);
    AUTO_FREE Elf64_Sym *chunk = malloc(CHUNK_SYMBOLS * sizeof *chunk);
    const sig_atomic_t begun = interruptions();

    for (uint64_t done = 0; chunk && done < count;) {
        size_t n = count - done < CHUNK_SYMBOLS ? (size_t)(count - done) : CHUNK_SYMBOLS;
        if (interruptions_ended(begun) ||
            !file_read(fd, section->sh_offset + done * sizeof *chunk, chunk, n * sizeof *chunk))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!visit_entry(search, &chunk[i]))
                return true;
        done += n;
    }
    return chunk && !strtab_exhausted(search->names);
}

static bool visit_named(int fd, const Elf64_Shdr *symbols, struct search *search)
{
    bool good = true;

    search->known = search->query && strtab_find(search->names, search->query, &search->spans);
    if (!search->known || search->spans.count || search->query->others)
        good = visit_entries(fd, symbols, search);
    free(search->spans.list);
    return good;
}

static bool visit_types(int fd, uint32_t table, unsigned types, struct search *search)
{
    struct sections sections;
    Elf64_Shdr symbols, strings;
    struct strtab names;
    bool good;

    if (!find_tables(fd, table, &sections, &symbols, &strings))
        return false;
    good = strtab_open(&names, &sections, &strings, search->query ? STRTAB_BLOCK : STRTAB_WINDOW);
    search->names = &names;
    search->types = types;
    good = good && visit_named(fd, &symbols, search);
    strtab_close(&names);
    return good;
}

bool symtab_visit(int fd, uint64_t bias, const struct name_query *names, symbol_visitor visit,
                  void *ctx)
{
    struct search search = {.query = names, .bias = bias, .visit = visit, .ctx = ctx};

    return visit_types(fd, SHT_SYMTAB, 1u << STT_FUNC, &search);
}

bool symtab_visit_all(int fd, uint64_t bias, const struct name_query *names, symbol_visitor visit,
                      void *ctx)
{
    struct search search = {.query = names, .bias = bias, .visit = visit, .ctx = ctx};

    return visit_types(fd, SHT_SYMTAB, 1u << STT_FUNC | 1u << STT_OBJECT, &search);
}

bool symtab_visit_dynamic(int fd, uint64_t bias, symbol_visitor visit, void *ctx)
{
    struct search search = {.bias = bias, .visit = visit, .ctx = ctx};

    return visit_types(fd, SHT_DYNSYM, 1u << STT_FUNC | 1u << STT_OBJECT, &search);
}
