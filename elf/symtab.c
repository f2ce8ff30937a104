#include "elf/symtab.h"

#include <string.h>
#include <sys/stat.h>

enum { CHUNK_SYMBOLS = 16384, SECTIONS_MAX = 1 << 20 };

struct sections {
    Elf64_Shdr symbols, strings;
};

static bool section_in_file(int fd, const Elf64_Shdr *section)
{
    struct stat st;

    return fstat(fd, &st) == 0 && section->sh_offset <= (uint64_t)st.st_size &&
           section->sh_size <= (uint64_t)st.st_size - section->sh_offset;
}

/* More than 0xff00 sections: the count stands in section 0 (ELF, "extended numbering"). */
static bool section_count(int fd, const Elf64_Ehdr *header, uint64_t *count)
{
    Elf64_Shdr zero;

    *count = header->e_shnum;
    if (*count)
        return true;
    if (!file_read(fd, header->e_shoff, &zero, sizeof zero))
        return false;
    *count = zero.sh_size;
    return true;
}

static bool find_sections(int fd, struct sections *out)
{
    Elf64_Ehdr header;
    uint64_t count;

    if (!file_read(fd, 0, &header, sizeof header) || !header.e_shoff ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_shentsize != sizeof(Elf64_Shdr) || !section_count(fd, &header, &count) ||
        count > SECTIONS_MAX)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!file_read(fd, header.e_shoff + i * sizeof out->symbols, &out->symbols,
                       sizeof out->symbols))
            return false;
        if (out->symbols.sh_type != SHT_SYMTAB)
            continue;
        return out->symbols.sh_link < count &&
               file_read(fd, header.e_shoff + out->symbols.sh_link * sizeof out->strings,
                         &out->strings, sizeof out->strings) &&
               section_in_file(fd, &out->symbols) && section_in_file(fd, &out->strings);
    }
    return false;
}

struct search {
    const char *names;
    uint64_t names_size;
    uint64_t bias;
    unsigned char type; /* STT_FUNC or STT_OBJECT */
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
    if (symbol.type != search->type || sym->st_shndx == SHN_UNDEF || !sym->st_value ||
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

static bool visit_type(int fd, uint64_t bias, unsigned char type, const char *part,
                       symbol_visitor visit, void *ctx)
{
    struct sections sections;
    AUTO_FREE char *names = NULL;

    if (!find_sections(fd, &sections))
        return false;
    uint64_t size = sections.strings.sh_size;
    if (!size || size > SYMTAB_STRINGS_MAX || !(names = malloc(size + 1)) ||
        !file_read(fd, sections.strings.sh_offset, names, size))
        return false;
    names[size] = '\0';
    if (memmem(names, size, part, strlen(part))) {
        struct search search = {names, size, bias, type, part, visit, ctx, NULL};
        visit_all(fd, &sections.symbols, &search);
    }
    return true;
}

bool symtab_visit(int fd, uint64_t bias, const char *part, symbol_visitor visit, void *ctx)
{
    return visit_type(fd, bias, STT_FUNC, part, visit, ctx);
}

bool symtab_visit_objects(int fd, uint64_t bias, const char *part, symbol_visitor visit, void *ctx)
{
    return visit_type(fd, bias, STT_OBJECT, part, visit, ctx);
}
