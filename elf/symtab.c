#include "elf/symtab.h"
#include "elf/sections.h"

#include <string.h>

enum { CHUNK_SYMBOLS = 16384 };

static bool find_tables(int fd, Elf64_Shdr *symbols, Elf64_Shdr *strings)
{
    struct sections sections;

    return sections_open(&sections, fd) && section_of_type(&sections, SHT_SYMTAB, symbols) &&
           section_at(&sections, symbols->sh_link, strings) &&
           section_in_file(&sections, symbols) && section_in_file(&sections, strings);
}

struct search {
    const char *names;
    uint64_t names_size;
    uint64_t bias;
    const char *part;
    symbol_visitor visit;
    void *ctx;
    const char
        *file; /* of the local symbols that follow its STT_FILE symbol (ELF, "Symbol Table") */
};

static bool visit_symbol(struct search *search, const Elf64_Sym *sym)
{
    const char *name = search->names + sym->st_name;
    struct symbol symbol = {
        .address = sym->st_value + search->bias,
        .size = sym->st_size,
        .type = ELF64_ST_TYPE(sym->st_info),
        .local = ELF64_ST_BIND(sym->st_info) == STB_LOCAL,
    };

    if (sym->st_name >= search->names_size)
        return true;
    if (symbol.type == STT_FILE)
        search->file = name;
    if (symbol.type != STT_FUNC || sym->st_shndx == SHN_UNDEF || !sym->st_value ||
        strnlen(name, SYMBOL_NAME_MAX) == SYMBOL_NAME_MAX || !strstr(name, search->part))
        return true;
    symbol.file = symbol.local ? search->file : NULL;
    return search->visit(search->ctx, name, &symbol);
}

static void visit_all(int fd, const Elf64_Shdr *section, struct search *search)
{
    uint64_t count = section->sh_size / sizeof(Elf64_Sym);
    AUTO_FREE Elf64_Sym *chunk = malloc(CHUNK_SYMBOLS * sizeof *chunk);

    for (uint64_t done = 0; chunk && done < count;) {
        size_t n = count - done < CHUNK_SYMBOLS ? (size_t)(count - done) : CHUNK_SYMBOLS;
        if (!file_read(fd, section->sh_offset + done * sizeof *chunk, chunk, n * sizeof *chunk))
            return;
        for (size_t i = 0; i < n; i++)
            if (!visit_symbol(search, &chunk[i]))
                return;
        done += n;
    }
}

bool symtab_visit(int fd, uint64_t bias, const char *part, symbol_visitor visit, void *ctx)
{
    Elf64_Shdr symbols, strings;
    AUTO_FREE char *names = NULL;

    if (!find_tables(fd, &symbols, &strings))
        return false;
    uint64_t size = strings.sh_size;
    if (!size || size > SYMTAB_STRINGS_MAX || !(names = malloc(size + 1)) ||
        !file_read(fd, strings.sh_offset, names, size))
        return false;
    names[size] = '\0';
    if (memmem(names, size, part, strlen(part))) {
        struct search search = {names, size, bias, part, visit, ctx, NULL};
        visit_all(fd, &symbols, &search);
    }
    return true;
}
