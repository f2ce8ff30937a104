#include "elf/core.h"
#include "attach/target.h"
#include "base/interruptions.h"
#include "base/list.h"
#include "base/search.h"
#include "elf/faults.h"
#include "elf/image.h"
#include "host/task.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>

enum {
    SEGMENTS_MAX = 1 << 20,   /* vm.max_map_count is 65530 by default */
    NOTES_READ_MAX = 1 << 20, /* some 8 a thread */
    FILE_NOTE_MAX = 16 << 20, /* CORE_FILE_NOTE_SIZE_MAX, fs/coredump.c */
    AUXV_MAX = 512,           /* AT_VECTOR_SIZE is below 64 */
    PHDRS_AT_ONCE = 1024,
};

static fault_code refuse_core(struct fault *fault, const char *why)
{
    return fault_set(fault, FAULT_CORE, 0, "read the core file", "%s", why);
}

/* ---- the ELF header ---- */

static const struct {
    unsigned char magic[4];
    size_t len;
    const char *why;
} packed_formats[] = {
    {{0x28, 0xb5, 0x2f, 0xfd}, 4, "it is compressed: zstd -dc FILE | jeattach ... --core -"},
    {{0x1f, 0x8b}, 2, "it is compressed: gzip -dc FILE | jeattach ... --core -"},
    {{0xfd, '7', 'z', 'X'}, 4, "it is compressed: xz -dc FILE | jeattach ... --core -"},
    {{0x04, 0x22, 0x4d, 0x18}, 4, "it is compressed: lz4 -dc FILE | jeattach ... --core -"},
    {{'B', 'Z', 'h'}, 3, "it is compressed: bzip2 -dc FILE | jeattach ... --core -"},
};

static fault_code check_core_header(const Elf64_Ehdr *header, struct fault *fault)
{
    const unsigned char *ident = header->e_ident;

    for (size_t i = 0; i < ARRAY_LEN(packed_formats); i++)
        if (memcmp(ident, packed_formats[i].magic, packed_formats[i].len) == 0)
            return refuse_core(fault, packed_formats[i].why);
    if (memcmp(ident, ELFMAG, SELFMAG) != 0)
        return refuse_core(fault, "it is not an ELF file");
    if (ident[EI_CLASS] == ELFCLASS32)
        return fault_set(fault, FAULT_FOREIGN_ABI, 0, "read the core file", "a 32-bit ELF file");
    if (!elf_header_valid(header) || !elf_machine_is_own(header))
        return fault_set(fault, FAULT_FOREIGN_ABI, 0, "read the core file",
                         "an ELF file of machine %u", (unsigned)header->e_machine);
    if (header->e_type == ET_EXEC || header->e_type == ET_DYN)
        return refuse_core(fault, "it is a program or a library, not a core file");
    if (header->e_type != ET_CORE)
        return refuse_core(fault, "it is an ELF file, but not a core file");
    if (header->e_phentsize != sizeof(Elf64_Phdr))
        return refuse_core(fault, "its program headers have another size");
    return FAULT_NONE;
}

/* ---- notes ---- */

static uint64_t note_aligned(uint64_t n)
{
    return (n + 3) & ~(uint64_t)3;
}

static void take_status(struct core *core, uint64_t at, uint64_t len)
{
    struct elf_prstatus status;

    /* Only the head: the registers that follow are the machine's. */
    if (len < offsetof(struct elf_prstatus, pr_reg) ||
        !file_read(core->fd, at, &status, offsetof(struct elf_prstatus, pr_reg)))
        return;
    if (core->threads++ == 0) /* the thread that ended the process comes first */
        core->signal = status.pr_cursig;
    if (!core->pid)
        core->pid = status.pr_pid;
}

static void take_psinfo(struct core *core, uint64_t at, uint64_t len)
{
    struct elf_prpsinfo info;

    if (len < sizeof info || !file_read(core->fd, at, &info, sizeof info))
        return;
    snprintf(core->name, sizeof core->name, "%.*s", (int)sizeof info.pr_fname, info.pr_fname);
    if (info.pr_pid > 0)
        core->pid = info.pr_pid;
}

static void take_auxv(struct core *core, uint64_t at, uint64_t len)
{
    Elf64_auxv_t values[AUXV_MAX];
    remote_addr entry = 0, phdr = 0;

    if (len > sizeof values)
        len = sizeof values;
    if (!file_read(core->fd, at, values, len))
        return;
    for (size_t i = 0; i < len / sizeof *values && values[i].a_type != AT_NULL; i++) {
        if (values[i].a_type == AT_PHDR)
            phdr = values[i].a_un.a_val;
        else if (values[i].a_type == AT_ENTRY)
            entry = values[i].a_un.a_val;
        else if (values[i].a_type == AT_SYSINFO_EHDR)
            core->vdso = values[i].a_un.a_val;
    }
    core->program_at = phdr ? phdr : entry;
}

/*
 * NT_FILE: count, page size, then count times {start, end, offset in pages}, then the
 * paths, each ended by a NUL (fs/binfmt_elf.c, fill_files_note).
 */
static void take_files(struct core *core, uint64_t at, uint64_t len)
{
    if (len < 16 || len > FILE_NOTE_MAX || len > core->size || core->file_note)
        return;
    core->file_note = malloc(len + 1);
    if (!core->file_note || !file_read(core->fd, at, core->file_note, len))
        return;
    core->file_note[len] = '\0'; /* a path may lack its end */

    const uint64_t *words = (const uint64_t *)(void *)core->file_note;
    const char *path, *end = core->file_note + len;
    uint64_t count = words[0], page = words[1];
    if (count > (len - 16) / 24)
        return;
    core->mappings = calloc(count ? count : 1, sizeof *core->mappings);
    path = core->file_note + 16 + count * 24;
    for (uint64_t i = 0; core->mappings && i < count && path < end; i++) {
        const uint64_t *entry = words + 2 + 3 * i;
        struct core_mapping *mapping = &core->mappings[core->mapping_count];
        remote_addr last = core->mapping_count ? mapping[-1].end : 0;
        *mapping = (struct core_mapping){entry[0], entry[1], entry[2] * page, path};
        if (entry[0] >= last && entry[0] < entry[1] && strlen(path) < PATH_MAX)
            core->mapping_count++;
        path += strlen(path) + 1;
    }
}

static void read_core_notes(struct core *core, const Elf64_Phdr *ph, unsigned *left)
{
    uint64_t at = ph->p_offset, end = core->size;

    if (at > core->size)
        return;
    if (ph->p_filesz < core->size - at)
        end = at + ph->p_filesz;
    while (end - at >= sizeof(Elf64_Nhdr) && *left > 0 && !interruptions_ended(0)) {
        struct {
            Elf64_Nhdr header;
            char owner[5];
        } note;
        memset(&note, 0, sizeof note);
        --*left;
        if (!file_read(core->fd, at, &note.header, sizeof note.header))
            return;
        uint64_t desc = at + sizeof note.header + note_aligned(note.header.n_namesz);
        uint64_t next = desc + note_aligned(note.header.n_descsz);
        if (desc > end || note.header.n_descsz > end - desc)
            return;
        at += sizeof note.header;
        if (note.header.n_namesz == sizeof note.owner &&
            file_read(core->fd, at, note.owner, sizeof note.owner) &&
            memcmp(note.owner, "CORE", sizeof note.owner) == 0) {
            const uint64_t len = note.header.n_descsz;
            if (note.header.n_type == NT_PRSTATUS)
                take_status(core, desc, len);
            else if (note.header.n_type == NT_PRPSINFO)
                take_psinfo(core, desc, len);
            else if (note.header.n_type == NT_AUXV)
                take_auxv(core, desc, len);
            else if (note.header.n_type == NT_FILE)
                take_files(core, desc, len);
        }
        at = next < end ? next : end;
    }
}

/* ---- segments ---- */

static bool add_segment(struct core *core, const Elf64_Phdr *ph)
{
    const unsigned prot = (ph->p_flags & PF_R ? MAP_READ : 0u) |
                          (ph->p_flags & PF_W ? MAP_WRITE : 0u) |
                          (ph->p_flags & PF_X ? MAP_EXEC : 0u);
    uint64_t end, file_end;

    if (__builtin_add_overflow(ph->p_vaddr, ph->p_memsz, &end) || end == ph->p_vaddr)
        return true;
    if (!LIST_GROW(core->segments, core->segment_capacity, core->segment_count))
        return false;
    core->segments[core->segment_count++] =
        (struct core_segment){.start = ph->p_vaddr,
                              .end = end,
                              .prot = prot,
                              .dumped = ph->p_filesz < ph->p_memsz ? ph->p_filesz : ph->p_memsz,
                              .offset = ph->p_offset};
    if (!__builtin_add_overflow(ph->p_offset, ph->p_filesz, &file_end) && file_end > core->whole)
        core->whole = file_end;
    return true;
}

static int compare_segments(const void *a, const void *b)
{
    const struct core_segment *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static fault_code read_core_phdrs(struct core *core, const Elf64_Ehdr *header, struct fault *fault)
{
    AUTO_FREE Elf64_Phdr *phdrs = malloc(PHDRS_AT_ONCE * sizeof *phdrs);
    uint64_t count = header->e_phnum, done = 0;
    unsigned notes_left = NOTES_READ_MAX;
    Elf64_Shdr first;

    /* With 65535 headers and more the number is in the first section header (PN_XNUM, elf(5)). */
    if (count == PN_XNUM)
        count = file_read(core->fd, header->e_shoff, &first, sizeof first) ? first.sh_info : 0;
    if (!phdrs)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "read the core file", "its segments");
    if (count == 0 || count > SEGMENTS_MAX)
        return refuse_core(fault, "it has no program headers");
    while (done < count) {
        size_t n = count - done < PHDRS_AT_ONCE ? (size_t)(count - done) : PHDRS_AT_ONCE;
        if (!file_read(core->fd, header->e_phoff + done * sizeof *phdrs, phdrs, n * sizeof *phdrs))
            return refuse_core(fault, "it is truncated within its program headers");
        for (size_t i = 0; i < n; i++) {
            if (phdrs[i].p_type == PT_NOTE)
                read_core_notes(core, &phdrs[i], &notes_left);
            else if (phdrs[i].p_type == PT_LOAD && !add_segment(core, &phdrs[i]))
                return fault_set(fault, FAULT_INTERNAL, ENOMEM, "read the core file",
                                 "its segments");
        }
        done += n;
    }
    return FAULT_NONE;
}

static fault_code read_core(struct core *core, struct fault *fault)
{
    Elf64_Ehdr header;
    struct stat st;
    size_t kept = 0;
    fault_code rc;

    if (fstat(core->fd, &st))
        return fault_set(fault, FAULT_CORE, errno, "read the core file", "it cannot be read");
    core->size = (uint64_t)st.st_size;
    if (core->size == 0)
        return refuse_core(fault, "it is empty");
    memset(&header, 0, sizeof header);
    if (!file_read(core->fd, 0, &header, sizeof header))
        return refuse_core(fault, "it is too short for a core file");
    rc = check_core_header(&header, fault);
    if (rc == FAULT_NONE)
        rc = read_core_phdrs(core, &header, fault);
    if (rc != FAULT_NONE)
        return rc;

    if (core->segment_count)
        qsort(core->segments, core->segment_count, sizeof *core->segments, compare_segments);
    for (size_t i = 0; i < core->segment_count; i++)
        if (!kept || core->segments[i].start >= core->segments[kept - 1].end)
            core->segments[kept++] = core->segments[i];
    core->segment_count = kept;
    if (!core->segment_count)
        return refuse_core(fault, "it contains no memory");
    if (!core->mapping_count && core_is_truncated(core))
        return refuse_core(fault, "it is truncated before its list of mapped files (NT_FILE)");
    if (!core->mapping_count)
        return refuse_core(fault, "it does not list the files that the process had mapped "
                                  "(NT_FILE)");
    return FAULT_NONE;
}

fault_code core_open(struct core *core, int fd, struct fault *fault)
{
    fault_code rc;

    memset(core, 0, sizeof *core);
    core->fd = fd;
    rc = read_core(core, fault);
    if (rc != FAULT_NONE)
        core_close(core);
    return rc;
}

void core_close(struct core *core)
{
    util_close(&core->fd);
    free(core->segments);
    free(core->mappings);
    free(core->file_note);
    memset(core, 0, sizeof *core);
    core->fd = -1;
}

const struct core_segment *core_segment_at(const struct core *core, remote_addr addr)
{
    size_t i = SEARCH_FIRST(k, core->segment_count, addr < core->segments[k].end);
    return i < core->segment_count && addr >= core->segments[i].start ? &core->segments[i] : NULL;
}

const struct core_mapping *core_mapping_at(const struct core *core, remote_addr addr)
{
    size_t i = SEARCH_FIRST(k, core->mapping_count, addr < core->mappings[k].end);
    return i < core->mapping_count && addr >= core->mappings[i].start ? &core->mappings[i] : NULL;
}

size_t core_read(const struct core *core, remote_addr addr, void *buf, size_t len)
{
    const struct core_segment *segment = core_segment_at(core, addr);
    uint64_t skip = segment ? addr - segment->start : 0;

    if (!segment || skip >= segment->dumped)
        return 0;
    uint64_t at = segment->offset + skip;
    size_t n = segment->dumped - skip < len ? (size_t)(segment->dumped - skip) : len;
    if (at >= core->size)
        return 0;
    if (core->size - at < n)
        n = (size_t)(core->size - at);
    return file_read(core->fd, at, buf, n) ? n : 0;
}

/* ---- core_maps: the mappings, as /proc/PID/maps shows those of a process ---- */

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
