/* core_maps: the mappings of a core file, as /proc/PID/maps shows those of a process. */
#include "attach/target.h"
#include "base/interruptions.h"
#include "elf/core.h"
#include "elf/image.h"
#include "host/task.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    PAGE = 4096,
    PATH_COLUMN = 73, /* fs/proc/task_mmu.c, show_vma_header_prefix */
    PARTS_MAX = 64, /* mappings of one file from its first one on; a hostile file has any number */
};

/* The text so far. */
struct maps_text {
    FILE *out;
    const struct core *core;
    const char *path; /* of the last mapping of a file; NULL: none yet */
    unsigned long inode;
};

/* A part of a segment: of one file, or anonymous. */
struct maps_piece {
    remote_addr start, end;
    unsigned prot;
    const struct core_mapping *mapping; /* NULL: anonymous */
};

static void write_piece(struct maps_text *text, const struct maps_piece *piece)
{
    const struct core_mapping *mapping = piece->mapping;
    uint64_t offset = mapping ? mapping->offset + (piece->start - mapping->start) : 0;
    const bool vdso = text->core->vdso && text->core->vdso == piece->start;
    const char *name = mapping ? mapping->path : vdso ? "[vdso]" : "";
    int n;

    if (mapping && (!text->path || strcmp(text->path, mapping->path) != 0)) {
        text->path = mapping->path;
        text->inode++;
    }
    n = fprintf(text->out, "%08llx-%08llx %c%c%cp %08llx 00:00 %lu ",
                (unsigned long long)piece->start, (unsigned long long)piece->end,
                piece->prot & MAP_READ ? 'r' : '-', piece->prot & MAP_WRITE ? 'w' : '-',
                piece->prot & MAP_EXEC ? 'x' : '-', (unsigned long long)offset,
                mapping ? text->inode : 0);
    if (*name && n < PATH_COLUMN)
        fprintf(text->out, "%*s", PATH_COLUMN - n, "");
    for (; *name; name++) {
        if (*name == '\n')
            fputs("\\012", text->out);
        else
            fputc(*name, text->out);
    }
    fputc('\n', text->out);
}

static bool same_mapped_file(const struct core_mapping *a, const struct core_mapping *b)
{
    return strcmp(a->path, b->path) == 0;
}

/* Reads the program headers of the file of mapping number i, as far as the core has them. */
static size_t mapped_phdrs(const struct core *core, size_t i, Elf64_Phdr phdrs[IMAGE_PHDRS_MAX])
{
    const struct core_mapping *first = &core->mappings[i];
    Elf64_Ehdr header;

    for (size_t parts = 0; first->offset != 0 && first > core->mappings && parts < PARTS_MAX &&
                           same_mapped_file(first, first - 1);
         parts++)
        first--;
    if (core_read(core, first->start, &header, sizeof header) != sizeof header ||
        !elf_header_valid(&header) || header.e_phentsize != sizeof *phdrs ||
        header.e_phnum > IMAGE_PHDRS_MAX || header.e_phoff > first->end - first->start)
        return 0;
    return core_read(core, first->start + header.e_phoff, phdrs, header.e_phnum * sizeof *phdrs) /
           sizeof *phdrs;
}

/* A file without a segment was not writable. Code, unless its headers say otherwise. */
static unsigned prot_of_file(const struct core *core, size_t i)
{
    const struct core_mapping *mapping = &core->mappings[i];
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    size_t count = mapped_phdrs(core, i, phdrs);

    for (size_t k = 0; k < count; k++)
        if (phdrs[k].p_type == PT_LOAD && mapping->offset >= phdrs[k].p_offset / PAGE * PAGE &&
            mapping->offset - phdrs[k].p_offset / PAGE * PAGE < phdrs[k].p_filesz)
            return phdrs[k].p_flags & PF_X ? MAP_READ | MAP_EXEC : MAP_READ;
    /* A file of data is mapped as a whole, a program or library in several parts. */
    const bool parts = (i > 0 && same_mapped_file(mapping, mapping - 1)) ||
                       (i + 1 < core->mapping_count && same_mapped_file(mapping, mapping + 1));
    return count || !parts ? MAP_READ : MAP_READ | MAP_EXEC;
}

/* Ends the piece where the range begins or ends. */
static void cut_piece(struct maps_piece *piece, remote_addr start, remote_addr end)
{
    remote_addr cut = piece->start < start ? start : end;

    if (cut < piece->end)
        piece->end = cut;
}

/* What is at an address: the first segment and the first mapping that end behind it. */
struct maps_place {
    const struct core *core;
    remote_addr at;
    size_t segment, mapping;
};

/* Moves to the next address that something covers. False: there is none. */
static bool find_piece(struct maps_place *place, struct maps_piece *piece)
{
    const struct core *core = place->core;
    const struct core_segment *segment;
    const struct core_mapping *mapping;

    while (place->segment < core->segment_count && core->segments[place->segment].end <= place->at)
        place->segment++;
    while (place->mapping < core->mapping_count && core->mappings[place->mapping].end <= place->at)
        place->mapping++;
    segment = place->segment < core->segment_count ? &core->segments[place->segment] : NULL;
    mapping = place->mapping < core->mapping_count ? &core->mappings[place->mapping] : NULL;
    if (!segment && !mapping)
        return false;
    if ((!segment || place->at < segment->start) && (!mapping || place->at < mapping->start))
        place->at = !segment || (mapping && mapping->start < segment->start) ? mapping->start
                                                                             : segment->start;
    *piece = (struct maps_piece){place->at, UINT64_MAX, 0, NULL};
    cut_piece(piece, segment ? segment->start : UINT64_MAX, segment ? segment->end : UINT64_MAX);
    cut_piece(piece, mapping ? mapping->start : UINT64_MAX, mapping ? mapping->end : UINT64_MAX);
    piece->mapping = mapping && mapping->start <= piece->start ? mapping : NULL;
    piece->prot = segment && segment->start <= piece->start ? segment->prot
                                                            : prot_of_file(core, place->mapping);
    return true;
}

int core_maps(const struct core *core, char **text, size_t *len)
{
    const sig_atomic_t begun = interruptions();
    struct maps_text lines = {.core = core};
    struct maps_place place = {core, 0, 0, 0};
    struct maps_piece piece;
    int err = 0;

    *text = NULL;
    lines.out = open_memstream(text, len);
    if (!lines.out)
        return -ENOMEM;
    for (; !err && find_piece(&place, &piece); place.at = piece.end) {
        write_piece(&lines, &piece);
        err = interruptions_ended(begun)            ? -EINTR
              : ftello(lines.out) > TARGET_MAPS_MAX ? -EFBIG
                                                    : 0;
    }
    if (fclose(lines.out) && !err)
        err = -ENOMEM;
    return err;
}
