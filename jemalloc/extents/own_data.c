#include "jemalloc/extents/own_data.h"
#include "base/util.h"
#include "jemalloc/extents/heap_pages.h"

#include <stdlib.h>
#include <string.h>

enum {
    ARENAS_LIMIT = 4095, /* MALLOCX_ARENA_LIMIT */
    ARRAY_ALIGNED = 64,  /* CACHELINE: the array, each arena, each base */
    ARENA_BYTES = 256 << 10,
    BASE_BYTES = 8192,
    BASE_AT = 192,        /* of its first block: base_block_t, up to the next CACHELINE */
    BLOCKS_MAX = 1 << 16, /* that are read: no heap has as many, a forged one may */
    BLOCKS_FAR = 512,     /* bytes of base_t in which its list of blocks begins */
    STATS_WORDS = 32,
};

#define BLOCK_ALIGNED ((remote_addr)2 << 20) /* HUGEPAGE, BASE_BLOCK_MIN_ALIGN */

static uint64_t own_word(const unsigned char *bytes, size_t at)
{
    uint64_t word;

    memcpy(&word, bytes + at, sizeof word);
    return word;
}

/* ---- a base ---- */

struct base_block {
    uint64_t size;
    remote_addr next;
};

struct base_sums {
    uint64_t allocated, resident, mapped;
};

struct arena_list {
    const struct heap_pages *heap;
    remote_addr arenas[ARENAS_LIMIT];
    size_t base_at; /* offset of the pointer to its base in an arena */
    struct base_sums sums;
    unsigned blocks; /* that were read */
    bool found;
};

static bool read_base_block(struct arena_list *list, remote_addr at, struct base_block *block)
{
    if (!at || at % BLOCK_ALIGNED || !pages_is_heap(list->heap, at, sizeof *block) ||
        list->blocks == BLOCKS_MAX || pages_is_late(list->heap))
        return false;
    list->blocks++;
    pages_read(list->heap, at, (unsigned char *)block, sizeof *block);
    return block->size && block->size % BLOCK_ALIGNED == 0;
}

/* Adds up a list of blocks, the last of which must be the one that the base is in; 0: it is none.
 */
static uint64_t sum_blocks(struct arena_list *list, remote_addr at, remote_addr first)
{
    struct base_block block;
    uint64_t sum = 0;

    while (read_base_block(list, at, &block)) {
        sum += block.size;
        if (!block.next)
            return at == first ? sum : 0;
        at = block.next;
    }
    return 0;
}

/*
 * Behind the heaps of unused space: allocated, resident, mapped; since 5.3.0-136 there are two
 * more before resident, in whose place the last heap is, which is always empty.
 */
static bool find_sums(struct base_sums *sums, const unsigned char *base, size_t from,
                      uint64_t mapped)
{
    for (size_t at = from + 32; at + 8 <= BASE_BYTES; at += 8) {
        sums->resident = own_word(base, at - 8);
        if (own_word(base, at) != mapped || !sums->resident || sums->resident > mapped)
            continue;
        sums->mapped = mapped;
        sums->allocated = own_word(base, at - 32);
        if (!sums->allocated)
            sums->allocated = own_word(base, at - 16);
        return sums->allocated && sums->allocated <= sums->resident;
    }
    return false;
}

static bool read_base(struct arena_list *list, remote_addr at, uint32_t number,
                      struct base_sums *sums)
{
    unsigned char bytes[BASE_BYTES];
    uint32_t index;

    if (at % BLOCK_ALIGNED != BASE_AT || !pages_is_heap(list->heap, at, sizeof bytes))
        return false;
    pages_read(list->heap, at, bytes, sizeof bytes);
    memcpy(&index, bytes, sizeof index);
    for (size_t in = 0; in < BLOCKS_FAR && index == number; in += 8) {
        const uint64_t mapped = sum_blocks(list, own_word(bytes, in), at - BASE_AT);
        if (mapped)
            return find_sums(sums, bytes, in, mapped);
    }
    return false;
}

/* ---- the arenas ---- */

/* Of arena 0: finds the pointer to its base, and so its place in each other arena. */
static bool find_base_at(struct arena_list *list, remote_addr arena)
{
    unsigned char bytes[MEMORY_PAGE];
    struct base_sums sums;

    for (size_t at = 0; at < ARENA_BYTES; at += sizeof bytes) {
        if (!pages_is_heap(list->heap, arena + at, sizeof bytes))
            return false;
        pages_read(list->heap, arena + at, bytes, sizeof bytes);
        for (size_t in = 0; in < sizeof bytes; in += 8)
            if (own_word(bytes, in) % BLOCK_ALIGNED == BASE_AT &&
                read_base(list, own_word(bytes, in), 0, &sums)) {
                list->base_at = at + in;
                return true;
            }
    }
    return false;
}

static bool add_arena_base(struct arena_list *list, uint32_t number)
{
    const remote_addr arena = list->arenas[number];
    struct base_sums sums;
    remote_addr base;

    if (!arena)
        return true;
    if (arena % ARRAY_ALIGNED || !pages_is_heap(list->heap, arena, list->base_at + 8))
        return false;
    pages_read(list->heap, arena + list->base_at, (unsigned char *)&base, sizeof base);
    if (!read_base(list, base, number, &sums))
        return false;
    list->sums.allocated += sums.allocated;
    list->sums.resident += sums.resident;
    list->sums.mapped += sums.mapped;
    return true;
}

static bool may_be_arena(struct arena_list *list, remote_addr at)
{
    struct base_block block;

    return at && at % ARRAY_ALIGNED == 0 && read_base_block(list, at - at % BLOCK_ALIGNED, &block);
}

static bool take_arena_array(struct arena_list *list, remote_addr at)
{
    memset(&list->sums, 0, sizeof list->sums);
    pages_read(list->heap, at, (unsigned char *)list->arenas, sizeof list->arenas);
    if (!find_base_at(list, list->arenas[0]))
        return false;
    for (uint32_t i = 0; i < ARENAS_LIMIT; i++)
        if (!add_arena_base(list, i))
            return false;
    return true;
}

static bool visit_array_words(void *ctx, remote_addr at, const unsigned char *bytes, size_t len)
{
    struct arena_list *list = ctx;

    for (size_t i = (size_t)(-at % ARRAY_ALIGNED); i + 8 <= len && !list->found; i += ARRAY_ALIGNED)
        list->found = may_be_arena(list, own_word(bytes, i)) && take_arena_array(list, at + i);
    return !list->found;
}

/* ---- the stats of an arena ---- */

/*
 * The first words of arena_stats_t, each of 8 bytes. '0': zero, as only copies have a value;
 * m: mapped; i: internal; '.': any. Before them are two counts of threads, since 5.1.0-94 the
 * next shard of bins, and a pointer.
 */
struct stats_layout {
    unsigned first, commits;
    unsigned at;
    const char *words;
};

#define V VERSION_NUMBER

static const struct stats_layout stats_layouts[] = {
    {V(5, 3, 1), 22, 24, "000000i0000000......00m.00"},
    {V(5, 3, 0), 136, 24, "000000i0000000......0m.00"},
    {V(5, 2, 1), 337, 24, "0000i0000000......0m.0"},
    {V(5, 1, 0), 94, 24, "m00......0i00000"},
    {V(5, 1, 0), 62, 16, "m00......0i00000"},
    {V(5, 0, 0), 0, 16, "m0......0i00000"},
};

static bool take_stats(const struct stats_layout *layout, const uint64_t words[STATS_WORDS],
                       struct own_data *own)
{
    for (size_t i = 0; layout->words[i]; i++) {
        const uint64_t word = words[layout->at / 8 + i];
        if (layout->words[i] == '0' && word)
            return false;
        if (layout->words[i] == 'i')
            own->internal += word;
        if (layout->words[i] == 'm')
            own->mapped += word;
    }
    return true;
}

static bool try_stats(const struct arena_list *list, const struct stats_layout *layout,
                      struct own_data *own)
{
    uint64_t words[STATS_WORDS];

    own->internal = own->mapped = 0;
    for (size_t i = 0; i < ARENAS_LIMIT; i++) {
        if (!list->arenas[i])
            continue;
        pages_read(list->heap, list->arenas[i], (unsigned char *)words, sizeof words);
        if (!take_stats(layout, words, own))
            return false;
    }
    return own->mapped && own->mapped % MEMORY_PAGE == 0 && own->internal <= own->mapped;
}

/* By its version; one that tells none has to fit a single layout. */
static bool read_stats(const struct arena_list *list, struct version version, struct own_data *own)
{
    struct own_data tried = {0};
    size_t fits = 0;

    for (size_t i = 0; i < ARRAY_LEN(stats_layouts); i++) {
        const struct stats_layout *layout = &stats_layouts[i];
        if (version.number > layout->first ||
            (version.number == layout->first && version.commits >= layout->commits))
            return try_stats(list, layout, own);
        if (!version.number && try_stats(list, layout, &tried)) {
            fits++;
            own->mapped = tried.mapped;
            own->internal = tried.internal;
        }
    }
    return fits == 1;
}

void own_data_read(const struct extents *extents, struct own_data *own)
{
    AUTO_FREE struct arena_list *list = calloc(1, sizeof *list);

    memset(own, 0, sizeof *own);
    if (!list)
        return;
    list->heap = extents_heap(extents);
    pages_segments(list->heap, true, 8, visit_array_words, list);
    if (!list->found)
        return;
    own->has_base = true;
    own->base_allocated = list->sums.allocated;
    own->base_resident = list->sums.resident;
    own->base_mapped = list->sums.mapped;
    own->has_stats = read_stats(list, extents_version(extents), own);
}
