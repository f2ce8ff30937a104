#include "jemalloc/extents/counted.h"
#include "base/util.h"
#include "jemalloc/extents/heap_pages.h"
#include "jemalloc/extents/tree.h"
#include "jemalloc/reader/layout.h"

#include <string.h>

#define V VERSION_NUMBER

#define PRESENCE_LIMIT ((uint64_t)4 << 30) /* of address space: some 0.1 s */

enum {
    EXACT_COMMITS = 92,  /* after 5.3.0: a sampled small object has only the pages that it needs */
    DIRTY_COMMITS = 337, /* after 5.2.1: stats.resident has no muzzy pages */
    PINNED_COMMITS = 22, /* after 5.3.1 */
};

/* ---- presence ---- */

/*
 * How much of jemalloc's extents is in memory. Its counts are of address space: pages that nobody
 * has touched yet, and those that are swapped out, are in no RSS. A window of pages moves over
 * the process; extents come in the order of addresses.
 */
struct presence {
    const struct pagemap *map;
    enum page_state states[PAGEMAP_PIECE];
    remote_addr start;    /* of the window; UINT64_MAX: none */
    uint64_t pieces_left; /* that may still be read: 0.1 us for each of their pages */
    bool known;           /* each range so far; false: there is no pagemap, or it is too much */
};

static struct presence presence_begin(const struct pagemap *map)
{
    return (struct presence){.map = map,
                             .start = UINT64_MAX,
                             .pieces_left = PRESENCE_LIMIT / pagemap_piece_bytes(map),
                             .known = map->fd >= 0};
}

/* Returns the bytes of [start, start + len) in memory; 0 once presence->known is false. */
static uint64_t presence_of(struct presence *presence, remote_addr start, uint64_t len)
{
    const uint64_t piece = pagemap_piece_bytes(presence->map), page = presence->map->page;
    const remote_addr end = start + len;
    uint64_t sum = 0;

    for (remote_addr at = start - start % page; presence->known && at < end; at += page) {
        const remote_addr first = at - at % piece;
        if (presence->start != first && !presence->pieces_left)
            presence->known = false;
        if (presence->start != first && presence->known) {
            presence->pieces_left--;
            presence->start = first;
            pagemap_states(presence->map, first, presence->states, PAGEMAP_PIECE);
        }
        enum page_state state = presence->states[(at - first) / page];
        presence->known = presence->known && state != PAGE_UNKNOWN;
        sum += state == PAGE_PRESENT ? page : 0;
    }
    return presence->known ? sum : 0;
}

/* ---- one extent ---- */

struct count {
    const struct classes *classes;
    const struct heap_pages *heap;
    struct version version;
    const struct sampled_layout *sampled; /* NULL: unknown, or nothing was ever sampled */
    uint64_t pages[EXTENT_STATES + 1];    /* bytes of whole pages by state */
    uint64_t allocated, in_use, sampling, slabs;
    struct presence presence, of_retained; /* one for what is counted as memory, one for the rest */
    struct counted_present present;        /* without known */
    bool is_doubtful;    /* allocated, sampling: of no version, and its extents do not tell */
    bool has_huge_pages; /* of an allocator that keeps free pages without an extent */
};

/*
 * A sampled small object has the smallest large class, and is counted as one. Since 5.3.0-92 it
 * has its pages alone, and is counted if these are as many as those of that class.
 */
static void count_sampled_small(struct count *count, const struct extent *extent)
{
    const uint64_t page = count->classes->page,
                   large = count->classes->list[count->classes->bins].size;
    const uint64_t exact = (extent->size + page - 1) / page * page;
    bool is_exact = count->version.number ? version_since(count->version, V(5, 3, 0), EXACT_COMMITS)
                                          : extent->bytes < large;

    if (!count->version.number && extent->bytes == exact + page && extent->bytes >= large)
        count->is_doubtful |= exact < large;
    count->allocated += !is_exact || exact >= large ? large : 0;
    count->in_use += extent->size;
    count->sampling += (is_exact ? exact : large) - extent->size;
}

static void count_present(struct count *count, const struct extent *extent)
{
    const remote_addr start = extent->start & ~(count->classes->page - 1);
    struct counted_present *sums = &count->present;
    uint64_t present, objects;

    if (extent->state == EXTENT_RETAINED) {
        sums->retained += presence_of(&count->of_retained, start, extent->bytes);
        return;
    }
    present = presence_of(&count->presence, start, extent->bytes);
    /* What is not in memory of a slab is taken for free space: its objects have been written. */
    objects = (extent->slab ? extent->used : 1) * extent->size;
    if (objects > present)
        objects = present;
    if (extent->state == EXTENT_PINNED) {
        sums->pinned += present;
    } else if (extent->state != EXTENT_ACTIVE) {
        sums->free_pages += present;
    } else {
        sums->in_use += objects;
        if (!extent->slab && extent->class < count->classes->bins)
            sums->sampling += present - objects;
        else if (extent->slab)
            sums->slabs_of[extent->class] += present - objects;
        else /* the page behind a large object, for its random offset, is free space, too */
            sums->padding += present - objects;
    }
}

static bool count_extent(void *ctx, const struct extent *extent)
{
    struct count *count = ctx;
    const uint64_t bytes = extent->used * extent->size;
    struct sampled sampled;

    count->has_huge_pages |= extent->is_huge_page;
    if (extent->state == EXTENT_ACTIVE && !extent->objects)
        return true;
    count->pages[extent->state] += extent->bytes;
    count_present(count, extent);
    if (extent->state != EXTENT_ACTIVE)
        return true;
    if (!extent->slab && extent->class < count->classes->bins) {
        count_sampled_small(count, extent);
        return true;
    }
    count->allocated += bytes;
    if (extent->slab) {
        count->in_use += bytes;
        count->slabs += extent->bytes - bytes;
    } else if (count->sampled && sampled_take(&sampled, count->sampled, count->classes, extent) &&
               sampled.is_stale && pages_is_heap(count->heap, sampled.tctx, 1)) {
        count->sampling += bytes;
    } else {
        count->in_use += bytes;
    }
    return true;
}

/* ---- what jemalloc has for itself ---- */

/*
 * What jemalloc has for itself, and what it counts of each arena, from the arenas in its memory:
 * the blocks that each base maps (base.h: base_t) and arena_t's stats (arena_stats.h).
 *
 * Nothing is taken on trust. The array of arenas is found by what it holds: each arena leads to
 * a base with its number, which lies at the start of a block, and the sizes of the base's blocks
 * add up to what it says it has mapped. The stats of an arena have a few counters among many
 * members that jemalloc sets only in the copies that it makes of them: those are zero.
 */
struct own_data {
    uint64_t base_allocated, base_resident, base_mapped; /* of all bases */
    bool has_base;
    uint64_t present;  /* of their blocks, what is in memory */
    uint64_t internal; /* bytes of objects of jemalloc's own, among the others */
    uint64_t mapped;   /* by extents that are in use, dirty, or muzzy */
    bool has_stats;    /* the last two are known: the layout of the stats is */
};

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

struct base_block {
    uint64_t size;
    remote_addr next;
};

struct base_sums {
    uint64_t allocated, resident, mapped;
};

struct arena_list {
    const struct heap_pages *heap;
    struct presence *presence;
    uint64_t present; /* of the blocks in sums */
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
    uint64_t sum = 0, present = 0;

    while (read_base_block(list, at, &block)) {
        sum += block.size;
        present += presence_of(list->presence, at, block.size);
        if (!block.next) {
            list->present += at == first ? present : 0;
            return at == first ? sum : 0;
        }
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
        sums->resident = reader_word(base, at - 8);
        if (reader_word(base, at) != mapped || !sums->resident || sums->resident > mapped)
            continue;
        sums->mapped = mapped;
        sums->allocated = reader_word(base, at - 32);
        if (!sums->allocated)
            sums->allocated = reader_word(base, at - 16);
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
        const uint64_t mapped = sum_blocks(list, reader_word(bytes, in), at - BASE_AT);
        if (mapped)
            return find_sums(sums, bytes, in, mapped);
    }
    return false;
}

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
            if (reader_word(bytes, in) % BLOCK_ALIGNED == BASE_AT &&
                read_base(list, reader_word(bytes, in), 0, &sums)) {
                list->base_at = at + in;
                return true;
            }
    }
    return false;
}

/* word: the pointer to arena 0, if it is the array. */
static bool take_arena_array(struct arena_list *list, remote_addr at, remote_addr word)
{
    struct base_block block;
    struct base_sums sums;
    remote_addr base;

    if (!word || word % ARRAY_ALIGNED ||
        !read_base_block(list, word - word % BLOCK_ALIGNED, &block))
        return false;
    memset(&list->sums, 0, sizeof list->sums);
    pages_read(list->heap, at, (unsigned char *)list->arenas, sizeof list->arenas);
    if (!find_base_at(list, list->arenas[0]))
        return false;
    list->present = 0;
    for (uint32_t i = 0; i < ARENAS_LIMIT; i++) {
        const remote_addr arena = list->arenas[i];
        if (!arena)
            continue;
        if (arena % ARRAY_ALIGNED || !pages_is_heap(list->heap, arena, list->base_at + 8))
            return false;
        pages_read(list->heap, arena + list->base_at, (unsigned char *)&base, sizeof base);
        if (!read_base(list, base, i, &sums))
            return false;
        list->sums.allocated += sums.allocated;
        list->sums.resident += sums.resident;
        list->sums.mapped += sums.mapped;
    }
    return true;
}

static bool visit_array_words(void *ctx, remote_addr at, const unsigned char *bytes, size_t len)
{
    struct arena_list *list = ctx;

    for (size_t i = (size_t)(-at % ARRAY_ALIGNED); i + 8 <= len && !list->found; i += ARRAY_ALIGNED)
        list->found = take_arena_array(list, at + i, reader_word(bytes, i));
    return !list->found;
}

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

static const struct stats_layout stats_layouts[] = {
    {V(5, 3, 1), 22, 24, "000000i0000000......00m.00"},
    {V(5, 3, 0), 136, 24, "000000i0000000......0m.00"},
    {V(5, 2, 1), 337, 24, "0000i0000000......0m.0"},
    {V(5, 1, 0), 94, 24, "m00......0i00000"},
    {V(5, 1, 0), 62, 16, "m00......0i00000"},
    {V(5, 0, 0), 0, 16, "m0......0i00000"},
};

static bool try_stats(const struct arena_list *list, const struct stats_layout *layout,
                      struct own_data *own)
{
    uint64_t words[STATS_WORDS];

    own->internal = own->mapped = 0;
    for (size_t i = 0; i < ARENAS_LIMIT; i++) {
        if (!list->arenas[i])
            continue;
        pages_read(list->heap, list->arenas[i], (unsigned char *)words, sizeof words);
        for (size_t k = 0; layout->words[k]; k++) {
            const uint64_t word = words[layout->at / 8 + k];
            if (layout->words[k] == '0' && word)
                return false;
            own->internal += layout->words[k] == 'i' ? word : 0;
            own->mapped += layout->words[k] == 'm' ? word : 0;
        }
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
        if (version_since(version, layout->first, layout->commits))
            return try_stats(list, layout, own);
        if (!version.number && try_stats(list, layout, &tried)) {
            fits++;
            own->mapped = tried.mapped;
            own->internal = tried.internal;
        }
    }
    return fits == 1;
}

/* Reads it, in some ms. What is not proven is not known. */
static void own_data_read(const struct extents *extents, struct presence *presence,
                          struct own_data *own)
{
    AUTO_FREE struct arena_list *list = calloc(1, sizeof *list);

    memset(own, 0, sizeof *own);
    if (!list)
        return;
    list->heap = extents_heap(extents);
    list->presence = presence;
    pages_segments(list->heap, true, 8, visit_array_words, list);
    if (!list->found)
        return;
    own->has_base = true;
    own->base_allocated = list->sums.allocated;
    own->base_resident = list->sums.resident;
    own->base_mapped = list->sums.mapped;
    own->present = list->present;
    own->has_stats = read_stats(list, extents_version(extents), own);
}

/* ---- the sums ---- */

static void set_counted(struct counted *counted, enum ctl_gauge gauge, uint64_t *value, bool known,
                        uint64_t bytes)
{
    if (!known)
        return;
    *value = bytes;
    counted->known |= 1u << gauge;
}

/* What the extents alone tell. */
static void sum_extents(struct counted *counted, const struct count *count,
                        const struct extents_pass *pass)
{
    struct stats_gauges *gauges = &counted->gauges;

    set_counted(counted, CTL_ALLOCATED, &gauges->allocated, !count->is_doubtful,
                extents_estimate(pass, count->allocated));
    set_counted(counted, CTL_ACTIVE, &gauges->active, true,
                extents_estimate(pass, count->pages[EXTENT_ACTIVE]));
    set_counted(counted, CTL_RETAINED, &gauges->retained, true,
                extents_estimate(pass, count->pages[EXTENT_RETAINED]));
    gauges->has_retained = true;
    gauges->has_pinned = version_since(count->version, V(5, 3, 1), PINNED_COMMITS);
    set_counted(counted, CTL_PINNED, &gauges->pinned, gauges->has_pinned,
                extents_estimate(pass, count->pages[EXTENT_PINNED]));
    counted->in_use = extents_estimate(pass, count->in_use);
    counted->sampling = extents_estimate(pass, count->sampling);
    counted->has_sampling = !count->is_doubtful;
    counted->slabs = extents_estimate(pass, count->slabs);
    counted->has_slabs = true;
    counted->has_free_pages = !count->has_huge_pages;
    if (counted->has_free_pages)
        counted->free_pages =
            extents_estimate(pass, count->pages[EXTENT_DIRTY] + count->pages[EXTENT_MUZZY]);
}

/* Up to 5.2.1 muzzy pages are part of resident. A version that is not known may be any. */
static void sum_own(struct counted *counted, const struct count *count,
                    const struct extents_pass *pass, const struct own_data *own)
{
    struct stats_gauges *gauges = &counted->gauges;
    const bool muzzy_too = !version_since(count->version, V(5, 2, 1), DIRTY_COMMITS);
    const uint64_t muzzy = count->pages[EXTENT_MUZZY];
    uint64_t pages = count->pages[EXTENT_ACTIVE] + count->pages[EXTENT_DIRTY];

    pages += (muzzy_too ? muzzy : 0) + (gauges->has_pinned ? count->pages[EXTENT_PINNED] : 0);
    set_counted(counted, CTL_RESIDENT, &gauges->resident,
                own->has_base && !count->has_huge_pages && (count->version.number || !muzzy),
                own->base_resident + extents_estimate(pass, pages));
    set_counted(counted, CTL_MAPPED, &gauges->mapped, own->has_base && own->has_stats,
                own->base_mapped + own->mapped);
    set_counted(counted, CTL_METADATA, &gauges->metadata, own->has_base && own->has_stats,
                own->base_allocated + own->internal);
    counted->internal = own->has_stats ? own->internal : 0;
}

fault_code counted_read(struct extents *extents, const struct reader_source *source, uint64_t limit,
                        struct counted *counted, struct fault *fault)
{
    const uint64_t began = clock_now();
    struct count count = {.classes = extents_classes(extents),
                          .heap = extents_heap(extents),
                          .version = extents_version(extents)};
    const struct counted_present *present = &count.present;
    struct extents_pass pass = {.limit = limit, .free_too = true};
    struct fact_variables variables;
    struct prof_state state;
    struct own_data own;
    fault_code rc;

    *counted = (struct counted){.at_ns = began};
    /* Whether anything is sampled tells if the words of a record mean anything. */
    facts_locate(&variables, source->instance, source->modules, source->target, source->memory);
    facts_read(&variables, source->memory, &state);
    if (state.build.opt_prof == FACT_YES)
        count.sampled = sampled_layout_of(count.version);
    count.presence = count.of_retained = presence_begin(&count.heap->map);
    /* First: a block that is mapped meanwhile is not known, and all of it would not be. */
    own_data_read(extents, &count.presence, &own);
    rc = extents_each(extents, count_extent, &count, &pass, fault);
    if (rc != FAULT_NONE)
        return rc;
    sum_extents(counted, &count, &pass);
    sum_own(counted, &count, &pass, &own);
    for (size_t i = 0; i < CLASSES_MAX; i++)
        count.present.slabs += count.present.slabs_of[i];
    if (count.presence.known && !count.has_huge_pages) {
        counted->present =
            (struct counted_present){.known = true,
                                     .in_use = extents_estimate(&pass, present->in_use),
                                     .sampling = extents_estimate(&pass, present->sampling),
                                     .slabs = extents_estimate(&pass, present->slabs),
                                     .padding = extents_estimate(&pass, present->padding),
                                     .free_pages = extents_estimate(&pass, present->free_pages),
                                     .pinned = extents_estimate(&pass, present->pinned),
                                     .has_own = own.has_base,
                                     .own = own.present};
        for (size_t i = 0; i < CLASSES_MAX; i++)
            counted->present.slabs_of[i] = extents_estimate(&pass, present->slabs_of[i]);
    }
    counted->present.has_retained = count.of_retained.known;
    counted->present.retained = extents_estimate(&pass, present->retained);
    counted->share = pass.share;
    counted->unsettled = pass.unsettled;
    counted->at_ns = began + (clock_now() - began) / 2;
    return FAULT_NONE;
}
