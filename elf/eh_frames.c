#include "elf/eh_frames.h"
#include "base/list.h"
#include "base/search.h"
#include "elf/image.h"
#include "elf/sections.h"

#include <string.h>

enum {
    RECORD_HEAD = 64, /* bytes of a record that are read */
    CIES_MAX = 65536,
    EH_FRAME_MAX = 1 << 30,
    /* Pointer encodings (LSB, "DWARF Exception Header Encoding"). */
    PE_FORMAT = 0x0f,
    PE_ABSPTR = 0x00,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_APPLICATION = 0xf0,
    PE_PCREL = 0x10,
};

struct cie {
    remote_addr at;
    unsigned char encoding;
    bool usable;
};

struct walk {
    const struct view *view;
    struct eh_frames *frames;
    size_t capacity;
    struct cie *cies;
    size_t cie_count, cie_capacity, last; /* last: index of the CIE used last */
    remote_addr skip_to;                  /* the next record begins here */
    bool ended, failed;
};

static uint32_t word32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Skips a LEB128 number. False: it does not end within len. */
static bool skip_leb(const unsigned char *bytes, size_t len, size_t *at)
{
    while (*at < len)
        if (!(bytes[(*at)++] & 0x80))
            return true;
    return false;
}

/* Finds the encoding of a CIE's pointers: the operand of 'R' in its augmentation. */
static bool cie_encoding(const unsigned char *record, size_t len, unsigned char *out)
{
    const char *augmentation = (const char *)record + 9;
    size_t at = 9;

    *out = PE_ABSPTR;
    if (len < 12 || !memchr(augmentation, 0, len - 9))
        return false;
    at += strlen(augmentation) + 1;
    if (!skip_leb(record, len, &at) || !skip_leb(record, len, &at) || !skip_leb(record, len, &at))
        return false;
    if (*augmentation == '\0')
        return true;
    if (*augmentation++ != 'z' || !skip_leb(record, len, &at))
        return false;
    for (; *augmentation; augmentation++) {
        static const unsigned char sizes[] = {8, 0, 2, 4, 8};
        if (at >= len)
            return false;
        if (*augmentation == 'R') {
            *out = record[at];
            return true;
        } else if (*augmentation == 'P') {
            unsigned char format = record[at] & 7;
            if (format == 1 || format >= sizeof sizes)
                return false;
            at += 1 + sizes[format];
        } else if (*augmentation == 'L') {
            at++;
        } else if (*augmentation != 'S' && *augmentation != 'B') {
            return false;
        }
    }
    return true;
}

/*
 * Reads an encoded pointer at bytes, which are at address `where`. Returns its
 * size in bytes; 0: unknown encoding.
 */
static size_t read_pointer(unsigned char encoding, const unsigned char *bytes, remote_addr where,
                           uint64_t *out)
{
    size_t size = 8;

    switch (encoding & PE_FORMAT) {
    case PE_SDATA4:
        *out = (uint64_t)(int64_t)(int32_t)word32(bytes);
        size = 4;
        break;
    case PE_UDATA4:
        *out = word32(bytes);
        size = 4;
        break;
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8:
        memcpy(out, bytes, sizeof *out);
        break;
    default:
        return 0;
    }
    if ((encoding & PE_APPLICATION) == PE_PCREL)
        *out += where;
    else if (encoding & PE_APPLICATION)
        return 0;
    return size;
}

static void walk_add_fde(struct walk *walk, remote_addr at, const unsigned char *record, size_t len)
{
    const struct module *module = walk->view->module;
    const remote_addr cie_at = at + 4 - word32(record + 4);
    const struct cie *cie;
    uint64_t start, size;
    size_t n;

    /* CIEs are visited in the order of their addresses. */
    if (walk->last >= walk->cie_count || walk->cies[walk->last].at != cie_at)
        walk->last = SEARCH_FIRST(i, walk->cie_count, walk->cies[i].at >= cie_at);
    cie = walk->last < walk->cie_count ? &walk->cies[walk->last] : NULL;
    if (!cie || cie->at != cie_at || !cie->usable || len < 16 ||
        !(n = read_pointer(cie->encoding, record + 8, at + 8, &start)) ||
        !read_pointer(cie->encoding & PE_FORMAT, record + 8 + n, 0, &size)) {
        walk->failed = true; /* otherwise a function would be missed */
        return;
    }
    /* If the linker has dropped a function, its record points nowhere. */
    if (start < module->exec_start || start >= module->exec_end || !size ||
        size > module->exec_end - start || module->exec_end - module->start > UINT32_MAX)
        return;
    walk->failed = !LIST_GROW(walk->frames->list, walk->capacity, walk->frames->count) ||
                   walk->frames->count == EH_FRAMES_MAX;
    if (!walk->failed)
        walk->frames->list[walk->frames->count++] =
            (struct eh_frame){(uint32_t)(start - walk->frames->base), (uint32_t)size,
                              (uint32_t)(at - walk->frames->base)};
}

/* A record: its length, then 0 for a CIE, otherwise the distance back to its CIE. */
static bool visit_piece(void *ctx, const struct piece *piece)
{
    struct walk *walk = ctx;

    while (!walk->ended && !walk->failed && walk->skip_to - piece->at < piece->fresh) {
        const remote_addr at = walk->skip_to;
        size_t offset = (size_t)(at - piece->at), len = piece->len - offset;
        unsigned char record[RECORD_HEAD] = {0}; /* the last one may be shorter */
        if (len < 4)
            return false;
        len = len < RECORD_HEAD ? len : RECORD_HEAD;
        memcpy(record, piece->bytes + offset, len);

        uint32_t length = word32(record);
        walk->ended = length == 0;
        walk->failed = length == UINT32_MAX || (length && length < 4);
        if (walk->ended || walk->failed)
            break;
        walk->skip_to = at + 4 + length;
        if (len > 4 + (size_t)length)
            len = 4 + (size_t)length;
        if (len < 8)
            continue;
        if (word32(record + 4) != 0) {
            walk_add_fde(walk, at, record, len);
            continue;
        }
        walk->failed = walk->cie_count == CIES_MAX ||
                       !LIST_GROW(walk->cies, walk->cie_capacity, walk->cie_count);
        if (!walk->failed) {
            struct cie *cie = &walk->cies[walk->cie_count++];
            cie->at = at;
            cie->usable = cie_encoding(record, len, &cie->encoding);
        }
    }
    return !walk->ended && !walk->failed;
}

/* PT_GNU_EH_FRAME: .eh_frame_hdr, version 1, whose first pointer leads to .eh_frame. */
static bool find_by_header(const struct view *view, remote_addr *start, remote_addr *end)
{
    for (size_t i = 0; i < view->image.phdr_count; i++) {
        const Elf64_Phdr *ph = &view->image.phdrs[i];
        remote_addr at = ph->p_vaddr + view->image.bias;
        unsigned char header[12];
        struct segment segment;
        if (ph->p_type != PT_GNU_EH_FRAME || !view_read(view, at, header, sizeof header) ||
            header[0] != 1 || !read_pointer(header[1], header + 4, at + 4, start) ||
            !view_segment_at(view, *start, &segment))
            continue;
        *end = segment.end;
        return true;
    }
    return false;
}

/* ld gives a non-PIE static program no PT_GNU_EH_FRAME; strip leaves the section headers. */
static bool find_by_section(const struct view *view, remote_addr *start, remote_addr *end)
{
    struct sections sections;
    Elf64_Shdr section;

    if (view->fd < 0 || !sections_open(&sections, view->fd) ||
        !section_named(&sections, ".eh_frame", &section) || !(section.sh_flags & SHF_ALLOC))
        return false;
    *start = section.sh_addr + view->image.bias;
    *end = *start + section.sh_size;
    return *end > *start && section.sh_size < EH_FRAME_MAX;
}

static int compare_frames(const void *a, const void *b)
{
    const struct eh_frame *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

bool eh_frames_load(struct eh_frames *frames, const struct view *view)
{
    struct walk walk = {.view = view, .frames = frames};
    remote_addr start, end;
    struct segment segment;
    size_t kept = 0;

    *frames = (struct eh_frames){.base = view->module->start};
    if (!find_by_header(view, &start, &end) && !find_by_section(view, &start, &end))
        return false;
    if (!view_segment_at(view, start, &segment) || end > segment.end || end - start > EH_FRAME_MAX)
        return false;
    walk.skip_to = start;
    bool whole = view_scan(view, start, end, RECORD_HEAD, visit_piece, &walk);
    free(walk.cies);
    if (walk.failed || (!whole && !walk.ended) || !frames->count) {
        eh_frames_free(frames);
        return false;
    }

    /* Sorts the functions, drops duplicates, and ends each where the next one starts. */
    qsort(frames->list, frames->count, sizeof *frames->list, compare_frames);
    for (size_t i = 1; i < frames->count; i++) {
        struct eh_frame *last = &frames->list[kept], *next = &frames->list[i];
        if (next->start == last->start) {
            last->size = next->size > last->size ? next->size : last->size;
            continue;
        }
        if (last->size > next->start - last->start)
            last->size = next->start - last->start;
        frames->list[++kept] = *next;
    }
    frames->count = kept + 1;
    return true;
}

void eh_frames_free(struct eh_frames *frames)
{
    free(frames->list);
    memset(frames, 0, sizeof *frames);
}

size_t eh_frames_from(const struct eh_frames *frames, remote_addr addr)
{
    return SEARCH_FIRST(i, frames->count, eh_frames_start(frames, i) >= addr);
}

size_t eh_frames_at(const struct eh_frames *frames, remote_addr addr)
{
    size_t i = eh_frames_from(frames, addr);

    if (i < frames->count && eh_frames_start(frames, i) == addr)
        return i;
    return i > 0 && addr < eh_frames_end(frames, i - 1) ? i - 1 : SIZE_MAX;
}

bool eh_frames_begin_at(const struct eh_frames *frames, remote_addr addr)
{
    size_t i = eh_frames_from(frames, addr);
    return i < frames->count && eh_frames_start(frames, i) == addr;
}

remote_addr eh_frames_start(const struct eh_frames *frames, size_t i)
{
    return frames->base + frames->list[i].start;
}

remote_addr eh_frames_end(const struct eh_frames *frames, size_t i)
{
    return eh_frames_start(frames, i) + frames->list[i].size;
}

/*
 * .eh_frame_hdr: version 1; pointer to .eh_frame as pcrel sdata4; number of
 * entries as udata4; table as datarel sdata4 (LSB, "Exception Frames"). Every
 * linker writes this form.
 */
struct eh_frame_hdr {
    uint8_t version, pointer_encoding, count_encoding, table_encoding;
    int32_t eh_frame;
    uint32_t count;
};

enum unwind_table_state unwind_table_find(struct unwind_table *table, struct memory *memory,
                                          const struct module *module)
{
    struct image image;
    struct eh_frame_hdr header;

    if (!image_open(&image, memory, module->start))
        return UNWIND_TABLE_UNKNOWN;
    for (size_t i = 0; i < image.phdr_count; i++) {
        remote_addr at = image.phdrs[i].p_vaddr + image.bias;
        if (image.phdrs[i].p_type != PT_GNU_EH_FRAME)
            continue;
        if (!memory_read_cached(memory, at, &header, sizeof header) || header.version != 1 ||
            header.pointer_encoding != 0x1b || header.count_encoding != 0x03 ||
            header.table_encoding != 0x3b)
            return UNWIND_TABLE_UNKNOWN;
        *table = (struct unwind_table){at, at + sizeof header, header.count};
        return UNWIND_TABLE_FOUND;
    }
    return UNWIND_TABLE_NONE;
}

remote_addr unwind_table_search(const struct unwind_table *table, struct memory *memory,
                                remote_addr pc)
{
    uint32_t low = 0, high = table->count;
    remote_addr found = 0;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct unwind_entry entry;
        if (!memory_read_cached(memory, table->entries + (uint64_t)middle * sizeof entry, &entry,
                                sizeof entry))
            return 0;
        if (table->base + (uint64_t)(int64_t)entry.start > pc) {
            high = middle;
            continue;
        }
        found = table->base + (uint64_t)(int64_t)entry.record;
        low = middle + 1;
    }
    return found;
}
