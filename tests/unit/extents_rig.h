/*
 * The records of a heap made by hand, in a program that does not exist: bin_infos, the tree from
 * page to extent in each of its shapes, and records in each layout. Its memory comes from a
 * function, which a test can use to change it between two reads.
 */
#pragma once

#include "jemalloc/extents/find.h"
#include "jemalloc/extents/totals.h"
#include "jemalloc/faults.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The program: its header, its static data with the root of the tree and bin_infos; then the heap:
 * nodes of the tree, records, pages.
 */
#define HEAP_CODE UINT64_C(0x5500000000)
#define HEAP_DATA UINT64_C(0x5500200000)
#define HEAP_META UINT64_C(0x7f0000000000)
#define HEAP_MAPS                                                                                  \
    "5500000000-5500100000 r-xp 00000000 08:01 77 /nowhere/program\n"                              \
    "5500200000-5500410000 rw-p 00100000 08:01 77 /nowhere/program\n"                              \
    "7f0000000000-7f0000800000 rw-p 00000000 00:00 0 \n"

enum {
    HEAP_DATA_BYTES = 0x210000,
    HEAP_META_BYTES = 0x800000,
    HEAP_ROOT = 0x8000,      /* in the data */
    HEAP_INFOS = 0x400,      /* in the data */
    HEAP_NODE = 0,           /* in the heap: 256 KiB; wide only */
    HEAP_LEAF = 0x40000,     /* 2 MiB, or 512 KiB */
    HEAP_RECORDS = 0x280000, /* at most 4096 */
    HEAP_PAGES = 0x400000,   /* 1024 */
    HEAP_PAGE_COUNT = 1024,
    HEAP_BLOCK = 0x600000, /* of jemalloc's own data, with the base and arena 0 */
    HEAP_BASE = HEAP_BLOCK + 192,
    HEAP_ARENA = HEAP_BLOCK + 0x10000,
    HEAP_ARENA_BASE = HEAP_ARENA + 0x2808, /* the pointer to the base */
    HEAP_ARENAS = 0x10000,                 /* the array, in the data */
    HEAP_BASE_SUMS = HEAP_BASE + 0xf00,    /* allocated and what follows it */
    HEAP_BINS = 36,
    HEAP_RECORDS_MAX = 4096,
};

struct heap_rig {
    struct procfs proc;
    struct target target;
    struct memory memory;
    struct modules modules;
    struct instance instance;
    struct reader_source source;
    struct extents *extents;
    struct extents_pass pass;
    struct fault fault;
    const struct record_layout *layout;
    const struct tree_shape *shape;
    size_t records;
    size_t reads;                                                       /* of its memory, so far */
    void (*before)(struct heap_rig *rig, remote_addr addr, size_t len); /* a read; NULL: nothing */
    _Alignas(8) unsigned char header[4096];
    unsigned char *data, *heap;
};

extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

/* Where the tool's copy of an address is. NULL: there is no such memory. */
static inline unsigned char *heap_rig_at(struct heap_rig *rig, remote_addr addr, size_t len)
{
    const struct {
        remote_addr start;
        size_t size;
        unsigned char *bytes;
    } parts[] = {{HEAP_CODE, sizeof rig->header, rig->header},
                 {HEAP_DATA, HEAP_DATA_BYTES, rig->data},
                 {HEAP_META, HEAP_META_BYTES, rig->heap}};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (addr >= parts[i].start && addr - parts[i].start <= parts[i].size &&
            len <= parts[i].size - (addr - parts[i].start))
            return parts[i].bytes + (addr - parts[i].start);
    return NULL;
}

static inline bool heap_rig_read(void *ctx, remote_addr addr, void *buf, size_t len)
{
    struct heap_rig *rig = ctx;
    unsigned char *at = heap_rig_at(rig, addr, len);

    rig->reads++;
    if (rig->before)
        rig->before(rig, addr, len);
    errno = EFAULT;
    if (at)
        memcpy(buf, at, len);
    return at != NULL;
}

static inline void heap_rig_put(struct heap_rig *rig, remote_addr addr, uint64_t word)
{
    memcpy(heap_rig_at(rig, addr, sizeof word), &word, sizeof word);
}

static inline uint64_t heap_rig_get(struct heap_rig *rig, remote_addr addr)
{
    uint64_t word;

    memcpy(&word, heap_rig_at(rig, addr, sizeof word), sizeof word);
    return word;
}

static inline void heap_rig_write_header(struct heap_rig *rig)
{
    Elf64_Ehdr *header = (Elf64_Ehdr *)rig->header;
    Elf64_Phdr *code = (Elf64_Phdr *)(header + 1), *data = code + 1;

    memcpy(header->e_ident, ELFMAG, SELFMAG);
    header->e_ident[EI_CLASS] = ELFCLASS64;
    header->e_ident[EI_DATA] = ELFDATA2LSB;
    header->e_machine = __ehdr_start.e_machine;
    header->e_phoff = sizeof *header;
    header->e_phentsize = sizeof *code;
    header->e_phnum = 2;
    *code = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = 1 << 20};
    *data = (Elf64_Phdr){.p_type = PT_LOAD,
                         .p_flags = PF_R | PF_W,
                         .p_vaddr = HEAP_DATA - HEAP_CODE,
                         .p_memsz = HEAP_ROOT + (UINT64_C(8) << rig->shape->bits)};
}

/* Small classes of a quantum of 16 bytes: 8, 16, 32, ... 128, then four for each power of two. */
static inline uint64_t heap_rig_size(unsigned class)
{
    if (class <= 8)
        return class ? 16 * class : 8;
    return (UINT64_C(128) << (class - 9) / 4) +
           ((class - 9) % 4 + 1) * (UINT64_C(32) << (class - 9) / 4);
}

/* The fewest pages that objects fill without a rest (sc.c, slab_size). */
static inline uint64_t heap_rig_slab_bytes(unsigned class)
{
    uint64_t bytes = MEMORY_PAGE;

    while (bytes % heap_rig_size(class))
        bytes += MEMORY_PAGE;
    return bytes;
}

static inline uint64_t heap_rig_objects(unsigned class)
{
    return heap_rig_slab_bytes(class) / heap_rig_size(class);
}

static inline void heap_rig_write_infos(struct heap_rig *rig)
{
    for (unsigned i = 0; i < HEAP_BINS; i++) {
        const remote_addr at = HEAP_DATA + HEAP_INFOS + 40 * i;
        const uint64_t objects = heap_rig_objects(i);
        heap_rig_put(rig, at, heap_rig_size(i));
        heap_rig_put(rig, at + 8, heap_rig_slab_bytes(i));
        heap_rig_put(rig, at + 16, objects | UINT64_C(1) << 32);
        heap_rig_put(rig, at + 24, objects);
        heap_rig_put(rig, at + 32, (objects + 63) / 64);
    }
}

static inline void heap_rig_write_tree(struct heap_rig *rig)
{
    const unsigned bits = rig->shape->bits;
    const uint64_t root = HEAP_META >> (12 + bits * (rig->shape->levels - 1));
    const remote_addr at = HEAP_DATA + HEAP_ROOT + 8 * root;

    if (rig->shape->levels == 2) {
        heap_rig_put(rig, at, HEAP_META + HEAP_LEAF);
        return;
    }
    heap_rig_put(rig, at, HEAP_META + HEAP_NODE);
    heap_rig_put(rig, HEAP_META + HEAP_NODE + 8 * (HEAP_META >> (12 + bits) & ((1u << bits) - 1)),
                 HEAP_META + HEAP_LEAF);
}

/* Starts an empty heap of that layout; the version is what the program says of itself. */
static inline bool heap_rig_begin(struct heap_rig *rig, const struct record_layout *layout,
                                  const struct tree_shape *shape, const char *version)
{
    const struct memory_source from = {heap_rig_read, rig};

    memset(rig, 0, sizeof *rig);
    rig->data = calloc(1, HEAP_DATA_BYTES);
    rig->heap = calloc(1, HEAP_META_BYTES);
    rig->layout = layout;
    rig->shape = shape;
    if (!rig->data || !rig->heap)
        return false;
    heap_rig_write_header(rig);
    heap_rig_write_infos(rig);
    heap_rig_write_tree(rig);
    memory_open_source(&rig->memory, &from);
    rig->proc.dirfd = -1;
    rig->target = (struct target){.proc = &rig->proc, .pidfd = -1};
    rig->source = (struct reader_source){.instance = &rig->instance,
                                         .modules = &rig->modules,
                                         .target = &rig->target,
                                         .memory = &rig->memory};
    rig->instance.found_by = FOUND_TABLES;
    snprintf(rig->instance.version, sizeof rig->instance.version, "%s", version);
    if (!modules_parse(&rig->modules, HEAP_MAPS, strlen(HEAP_MAPS)) || rig->modules.count != 1)
        return false;
    rig->instance.module = rig->modules.list[0];
    rig->instance.bias = HEAP_CODE;
    return true;
}

static inline void heap_rig_end(struct heap_rig *rig)
{
    extents_close(rig->extents);
    modules_free(&rig->modules);
    memory_close(&rig->memory);
    free(rig->data);
    free(rig->heap);
}

static inline remote_addr heap_rig_page(size_t page)
{
    return HEAP_META + HEAP_PAGES + page * MEMORY_PAGE;
}

static inline remote_addr heap_rig_record(size_t record)
{
    return HEAP_META + HEAP_RECORDS + record * RECORD_BYTES;
}

/* Address of the entry of a page, and what it says. */
static inline remote_addr heap_rig_entry(const struct heap_rig *rig, size_t page)
{
    return HEAP_META + HEAP_LEAF +
           rig->shape->entry * ((heap_rig_page(page) >> 12) & ((1u << rig->shape->bits) - 1));
}

static inline void heap_rig_enter(struct heap_rig *rig, size_t page, remote_addr record,
                                  unsigned class, bool slab, unsigned state)
{
    const remote_addr at = heap_rig_entry(rig, page);
    const uint64_t low = slab | (uint64_t)(rig->layout->leaf_state_shift ? state << 2 : 0);

    if (rig->shape->entry == 8) {
        heap_rig_put(rig, at, record | low | (uint64_t) class << 48);
        return;
    }
    heap_rig_put(rig, at, record);
    heap_rig_put(rig, at + 8,
                 rig->layout->leaf_state_shift ? low | (uint64_t) class << 5
                                               : class | (uint64_t)slab << 32);
}

static inline uint64_t heap_rig_bits(const struct heap_rig *rig, unsigned class, bool slab,
                                     unsigned state, unsigned unused)
{
    return 1 | (uint64_t)slab << 12 | (uint64_t)state << rig->layout->state_shift |
           (uint64_t) class << rig->layout->class_shift |
           (uint64_t)unused << (rig->layout->class_shift + 8);
}

/* Adds a slab of which each third object is free, from a page on. Returns the page after it. */
static inline size_t heap_rig_slab(struct heap_rig *rig, unsigned class, size_t page)
{
    const remote_addr record = heap_rig_record(rig->records++);
    const size_t pages = heap_rig_slab_bytes(class) / MEMORY_PAGE;
    unsigned unused = 0;
    uint64_t groups[8] = {0};

    for (unsigned i = 0; i < heap_rig_objects(class); i += 3, unused++)
        groups[i / 64] |= UINT64_C(1) << i % 64;
    heap_rig_put(rig, record, heap_rig_bits(rig, class, true, 0, unused));
    heap_rig_put(rig, record + 8, heap_rig_page(page));
    heap_rig_put(rig, record + 16, pages * MEMORY_PAGE | 5);
    for (unsigned i = 0; i < 8; i++)
        heap_rig_put(rig, record + 64 + 8 * i, groups[i]);
    for (size_t i = 0; i < pages; i++)
        heap_rig_enter(rig, page + i, record, class, true, 0);
    return page + pages;
}

/* Adds a large extent, of the class or of a sampled small object, in a state (0: in use). */
static inline size_t heap_rig_large(struct heap_rig *rig, unsigned class, size_t page, size_t pages,
                                    unsigned state)
{
    const remote_addr record = heap_rig_record(rig->records++);

    heap_rig_put(rig, record, heap_rig_bits(rig, class, false, state, 0));
    heap_rig_put(rig, record + 8, heap_rig_page(page) + (state ? 0 : 0x240));
    heap_rig_put(rig, record + 16, pages * MEMORY_PAGE);
    heap_rig_enter(rig, page, record, class, false, state);
    heap_rig_enter(rig, page + pages - 1, record, class, false, state);
    return page + pages;
}

/* Slabs of each class, sampled objects, large objects and free pages. Returns the pages used. */
static inline size_t heap_rig_fill(struct heap_rig *rig)
{
    size_t page = 0;

    for (unsigned class = 0; class < HEAP_BINS; class ++)
        page = heap_rig_slab(rig, class, page);
    for (unsigned i = 0; i < 4; i++)
        page = heap_rig_large(rig, HEAP_BINS + i, page, 5 + i, 0); /* 16 to 28 KiB, and a page */
    page = heap_rig_large(rig, 3, page, 5, 0);
    return heap_rig_large(rig, 232, page, 30, 1);
}

/*
 * Adds arena 0, in a block of 2 MiB of its base, of which 123456 bytes are allocated. Its stats are
 * at an offset: words of "0.", zero and any, m, mapped: 5 MiB, and i, internal: 4096.
 */
static inline void heap_rig_own(struct heap_rig *rig, bool wide_base, unsigned stats,
                                const char *words)
{
    const remote_addr sums = HEAP_META + HEAP_BASE_SUMS, last = sums + (wide_base ? 24 : 8);

    heap_rig_put(rig, HEAP_META + HEAP_BLOCK, 2 << 20);
    heap_rig_put(rig, HEAP_META + HEAP_BASE + 200, HEAP_META + HEAP_BLOCK);
    heap_rig_put(rig, sums, 123456);
    heap_rig_put(rig, last, 126976);
    heap_rig_put(rig, last + 8, 2 << 20);
    heap_rig_put(rig, HEAP_META + HEAP_ARENA_BASE, HEAP_META + HEAP_BASE);
    heap_rig_put(rig, HEAP_DATA + HEAP_ARENAS, HEAP_META + HEAP_ARENA);
    for (size_t i = 0; words[i]; i++)
        heap_rig_put(rig, HEAP_META + HEAP_ARENA + stats + 8 * i,
                     words[i] == 'm'   ? 5 << 20
                     : words[i] == 'i' ? 4096
                     : words[i] == '.' ? 77
                                       : 0);
}

static inline fault_code heap_rig_open(struct heap_rig *rig)
{
    return extents_open(&rig->extents, &rig->source, &rig->fault);
}
