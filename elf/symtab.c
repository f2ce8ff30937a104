#include "elf/symtab.h"
#include "elf/strtab.h"

#include <string.h>

enum { CHUNK_SYMBOLS = 16384, FILE_NAME_MAX = 4096 };

struct search {
    struct strtab *names;
    const struct strtab_spans *spans; /* NULL: every name */
    unsigned char type;               /* STT_FUNC or STT_OBJECT */
    uint64_t bias;
    const char *part;
    symbol_visitor visit;
    void *ctx;
    /* The last STT_FILE symbol: local ones are of it (ELF, "Symbol Table"). */
    bool has_file, file_read;
    uint32_t file_at;
    char file[FILE_NAME_MAX];
};

static bool find_tables(int fd, struct sections *sections, Elf64_Shdr *symbols, Elf64_Shdr *strings)
{
    return sections_open(sections, fd) && section_of_type(sections, SHT_SYMTAB, symbols) &&
           section_at(sections, symbols->sh_link, strings) && section_in_file(sections, symbols) &&
           !(symbols->sh_flags & SHF_COMPRESSED) && !(strings->sh_flags & SHF_COMPRESSED) &&
           symbols->sh_size / sizeof(Elf64_Sym) <= SYMTAB_SYMBOLS_MAX;
}

/* Read once it is asked for: a search by name asks for few. */
static const char *file_of(struct search *search)
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

static bool visit_symbol(struct search *search, const Elf64_Sym *sym)
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
    if (symbol.type != search->type || sym->st_shndx == SHN_UNDEF || !sym->st_value ||
        (search->spans && !strtab_spans_hold(search->spans, sym->st_name)))
        return true;
    symbol.file = symbol.local ? file_of(search) : NULL;
    name = strtab_name(search->names, sym->st_name);
    if (!name || !strstr(name, search->part))
        return true;
    return search->visit(search->ctx, name, &symbol);
}

/* False if a symbol could not be read. */
static bool visit_all(int fd, const Elf64_Shdr *section, struct search *search)
{
    uint64_t count = section->sh_size / sizeof(Elf64_Sym);
    AUTO_FREE Elf64_Sym *chunk = malloc(CHUNK_SYMBOLS * sizeof *chunk);

    for (uint64_t done = 0; chunk && done < count;) {
        size_t n = count - done < CHUNK_SYMBOLS ? (size_t)(count - done) : CHUNK_SYMBOLS;
        if (!file_read(fd, section->sh_offset + done * sizeof *chunk, chunk, n * sizeof *chunk))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!visit_symbol(search, &chunk[i]))
                return true;
        done += n;
    }
    return chunk && !strtab_exhausted(search->names);
}

static bool visit_part(int fd, const Elf64_Shdr *symbols, struct search *search)
{
    struct strtab_spans spans = {0};
    bool good = !search->part[0] || strtab_find(search->names, search->part, &spans);

    search->spans = search->part[0] ? &spans : NULL;
    if (good && (!search->spans || spans.count))
        good = visit_all(fd, symbols, search);
    free(spans.list);
    return good;
}

static bool visit_type(int fd, uint64_t bias, unsigned char type, const char *part,
                       symbol_visitor visit, void *ctx)
{
    struct sections sections;
    Elf64_Shdr symbols, strings;
    struct strtab names;
    bool good;

    if (!find_tables(fd, &sections, &symbols, &strings))
        return false;
    good = strtab_open(&names, &sections, &strings, part[0] ? STRTAB_BLOCK : STRTAB_WINDOW);
    if (good) {
        struct search search = {
            .names = &names, .type = type, .bias = bias, .part = part, .visit = visit, .ctx = ctx};
        good = visit_part(fd, &symbols, &search);
    }
    strtab_close(&names);
    return good;
}

bool symtab_visit(int fd, uint64_t bias, const char *part, symbol_visitor visit, void *ctx)
{
    return visit_type(fd, bias, STT_FUNC, part, visit, ctx);
}

bool symtab_visit_objects(int fd, uint64_t bias, const char *part, symbol_visitor visit, void *ctx)
{
    return visit_type(fd, bias, STT_OBJECT, part, visit, ctx);
}
