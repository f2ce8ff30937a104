#include "elf/sections.h"

#include <string.h>

enum { BLOCK_HEADERS = 256, SECTION_NAME_MAX = 32 };

static bool section_header_valid(const Elf64_Ehdr *header)
{
    return elf_header_valid(header) && header->e_shoff != 0 &&
           header->e_shentsize == sizeof(Elf64_Shdr);
}

bool section_at(const struct sections *sections, uint64_t index, Elf64_Shdr *out)
{
    return index < sections->count &&
           file_read(sections->fd, sections->offset + index * sizeof *out, out, sizeof *out);
}

bool section_in_file(const struct sections *sections, const Elf64_Shdr *section)
{
    return section->sh_type != SHT_NOBITS && section->sh_offset <= sections->file_size &&
           section->sh_size <= sections->file_size - section->sh_offset;
}

static bool read_first_names(struct sections *sections)
{
    const Elf64_Shdr *names = &sections->names;
    size_t n = sizeof sections->first_names;

    if (names->sh_size < n)
        n = (size_t)names->sh_size;
    return !n || file_read(sections->fd, names->sh_offset, sections->first_names, n);
}

/* e_shnum 0: the count is sh_size of section 0; e_shstrndx SHN_XINDEX: the index is its sh_link. */
static bool find_counts(struct sections *sections, const Elf64_Ehdr *header)
{
    uint64_t names = header->e_shstrndx;
    Elf64_Shdr zero;

    sections->offset = header->e_shoff;
    sections->count = 1;
    if (!section_at(sections, 0, &zero))
        return false;
    sections->count = header->e_shnum ? header->e_shnum : zero.sh_size;
    if (sections->count == 0 || sections->count > SECTIONS_MAX)
        return false;
    if (sections->count > (sections->file_size - sections->offset) / sizeof zero)
        sections->count = (sections->file_size - sections->offset) / sizeof zero;
    if (names == SHN_XINDEX)
        names = zero.sh_link;
    if (names == SHN_UNDEF || !section_at(sections, names, &sections->names) ||
        sections->names.sh_type != SHT_STRTAB || !section_in_file(sections, &sections->names))
        sections->names.sh_size = 0;
    return read_first_names(sections);
}

bool sections_open(struct sections *sections, int fd)
{
    Elf64_Ehdr header;

    memset(sections, 0, sizeof *sections);
    sections->fd = fd;
    sections->file_size = file_size(fd);
    if (!file_read(fd, 0, &header, sizeof header) || !section_header_valid(&header) ||
        header.e_shoff > sections->file_size)
        return false;
    return find_counts(sections, &header);
}

/* Visits the headers in order until visit returns false. False if one cannot be read. */
typedef bool (*header_visitor)(void *ctx, const Elf64_Shdr *section);

static bool each_section(const struct sections *sections, header_visitor visit, void *ctx)
{
    Elf64_Shdr block[BLOCK_HEADERS];

    for (uint64_t done = 0; done < sections->count; done += BLOCK_HEADERS) {
        uint64_t left = sections->count - done;
        size_t n = left < BLOCK_HEADERS ? (size_t)left : BLOCK_HEADERS;
        if (!file_read(sections->fd, sections->offset + done * sizeof *block, block,
                       n * sizeof *block))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!visit(ctx, &block[i]))
                return true;
    }
    return true;
}

struct section_search {
    const struct sections *sections;
    uint32_t type;
    const char *name; /* NULL: by type */
    Elf64_Shdr *out;
    bool found;
};

/* Reads the start of a name; bytes after the end of the table are NUL. */
static void read_name(const struct sections *sections, const Elf64_Shdr *section,
                      char name[SECTION_NAME_MAX])
{
    uint64_t size = sections->names.sh_size, at = section->sh_name;
    size_t n = SECTION_NAME_MAX - 1;

    memset(name, 0, SECTION_NAME_MAX);
    if (at >= size)
        return;
    if (size - at < n)
        n = (size_t)(size - at);
    if (at + n <= sizeof sections->first_names)
        memcpy(name, sections->first_names + at, n);
    else
        file_read(sections->fd, sections->names.sh_offset + at, name, n);
}

static bool match_section(void *ctx, const Elf64_Shdr *section)
{
    struct section_search *search = ctx;
    char name[SECTION_NAME_MAX];

    if (!search->name) {
        search->found = section->sh_type == search->type;
    } else if (section->sh_type != SHT_NULL) {
        read_name(search->sections, section, name);
        search->found = strcmp(name, search->name) == 0;
    }
    if (search->found)
        *search->out = *section;
    return !search->found;
}

bool section_of_type(const struct sections *sections, uint32_t type, Elf64_Shdr *out)
{
    struct section_search search = {sections, type, NULL, out, false};

    return each_section(sections, match_section, &search) && search.found;
}

bool section_named(const struct sections *sections, const char *name, Elf64_Shdr *out)
{
    struct section_search search = {sections, SHT_NULL, name, out, false};

    return sections->names.sh_size > 0 && each_section(sections, match_section, &search) &&
           search.found;
}
