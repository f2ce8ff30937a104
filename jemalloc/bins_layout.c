#include "jemalloc/bins_layout.h"

#define BIN(member)   offsetof(struct bin, member)
#define LARGE(member) offsetof(struct large_class, member)
#define COUNT(member) offsetof(struct bins_counts, member)

const struct bins_leaf bins_constants[] = {
    {"size", CTL_SIZE, BINS_ALL, BIN(size)},
    {"nregs", CTL_UNSIGNED, BINS_ALL, BIN(per_slab)},
    {"slab_size", CTL_SIZE, BINS_5, BIN(slab_bytes)},
    {"run_size", CTL_SIZE, BINS_4, BIN(slab_bytes)},
    {.name = NULL},
};

const struct bins_leaf bins_leaves[] = {
    {"nmalloc", CTL_UINT64, BINS_ALL, BIN(allocations)},
    {"ndalloc", CTL_UINT64, BINS_ALL, BIN(frees)},
    {"nrequests", CTL_UINT64, BINS_ALL, BIN(requests)},
    {"curregs", CTL_SIZE, BINS_ALL, BIN(objects)},
    {"curslabs", CTL_SIZE, BINS_5, BIN(slabs)},
    {"nonfull_slabs", CTL_SIZE, BINS_521, BIN(nonfull)},
    {"curruns", CTL_SIZE, BINS_4, BIN(slabs)},
    {.name = NULL},
};

const struct bins_leaf bins_large_leaves[] = {
    {"nmalloc", CTL_UINT64, BINS_ALL, LARGE(allocations)},
    {"ndalloc", CTL_UINT64, BINS_ALL, LARGE(frees)},
    {"nrequests", CTL_UINT64, BINS_ALL, LARGE(requests)},
    {"curlextents", CTL_SIZE, BINS_5, LARGE(objects)},
    {"curruns", CTL_SIZE, BINS_4, LARGE(objects)},
    {"curhchunks", CTL_SIZE, BINS_4, LARGE(objects)},
    {.name = NULL},
};

const struct bins_leaf bins_counts_leaves[] = {
    {"nthreads", CTL_UNSIGNED, BINS_ALL, COUNT(threads)},
    {"uptime", CTL_UINT64, BINS_5, COUNT(uptime_ns)},
    {"uptime_ns", CTL_UINT64, BINS_JSON, COUNT(uptime_ns)},
    {"pactive", CTL_SIZE, BINS_ALL, COUNT(pages_active)},
    {"pdirty", CTL_SIZE, BINS_ALL, COUNT(pages_dirty)},
    {"pmuzzy", CTL_SIZE, BINS_5, COUNT(pages_muzzy)},
    {"retained", CTL_SIZE, BINS_ALL, COUNT(retained)}, /* since 4.2 */
    {"resident", CTL_SIZE, BINS_5, COUNT(resident)},
    {"tcache_bytes", CTL_SIZE, BINS_5, COUNT(cached)},
    {"tcache", CTL_SIZE, BINS_JSON, COUNT(cached)}, /* 5.0 to 5.2.0 */
    {"small.allocated", CTL_SIZE, BINS_ALL, COUNT(small)},
    {"large.allocated", CTL_SIZE, BINS_ALL, COUNT(large)},
    {"huge.allocated", CTL_SIZE, BINS_4, COUNT(huge)},
    {"base", CTL_SIZE, BINS_5, COUNT(base)},
    {"internal", CTL_SIZE, BINS_5, COUNT(internal)},
    {"metadata.mapped", CTL_SIZE, BINS_4, COUNT(metadata_mapped)},
    {"metadata.allocated", CTL_SIZE, BINS_4, COUNT(metadata_in_use)},
    {.name = NULL},
};

const struct bins_kind bins_kinds[BINS_KINDS] = {
    [BINS_LEXTENTS] = {"arenas.nlextents", "arenas.lextent", "lextents", "lextent"},
    {"arenas.nlruns", "arenas.lrun", "lruns", "lrun"},
    {"arenas.nhchunks", "arenas.hchunk", "hchunks", "hchunk"},
};

void bins_take_counts(struct arena_bins *arena, const struct bins_counts *counts, uint64_t page)
{
    arena->threads = counts->threads;
    arena->uptime_ns = counts->uptime_ns;
    arena->active = counts->pages_active * page;
    arena->dirty = counts->pages_dirty * page;
    arena->muzzy = counts->pages_muzzy * page;
    arena->retained = counts->retained;
    arena->resident = counts->resident;
    arena->cached = counts->cached;
    arena->allocated = counts->small + counts->large + counts->huge;
    arena->metadata =
        counts->base + counts->internal + counts->metadata_mapped + counts->metadata_in_use;
}
