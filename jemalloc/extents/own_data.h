/*
 * What jemalloc has for itself, and what it counts of each arena, from the arenas in its memory:
 * the blocks that each base maps (base.h: base_t) and arena_t's stats (arena_stats.h).
 *
 * Nothing is taken on trust. The array of arenas is found by what it holds: each arena leads to
 * a base with its number, which lies at the start of a block, and the sizes of the base's blocks
 * add up to what it says it has mapped. The stats of an arena have a few counters among many
 * members that jemalloc sets only in the copies that it makes of them: those are zero.
 */
#pragma once

#include "jemalloc/extents/extents.h"

struct own_data {
    uint64_t base_allocated, base_resident, base_mapped; /* of all bases */
    bool has_base;
    uint64_t internal; /* bytes of objects of jemalloc's own, among the others */
    uint64_t mapped;   /* by extents that are in use, dirty, or muzzy */
    bool has_stats;    /* the last two are known: the layout of the stats is */
};

/* Reads it, in some ms. What is not proven is not known. */
void own_data_read(const struct extents *extents, struct own_data *own);
