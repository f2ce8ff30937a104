/*
 * The gauges of stats.*, as a write of "epoch" would make them now, counted from jemalloc's own
 * records (extents.h): nothing is called and nothing is stopped.
 */
#pragma once

#include "jemalloc/extents/classes.h"
#include "jemalloc/extents/extents.h"
#include "jemalloc/stats.h"

/* Bytes in memory of what is counted: without pages that were never touched, or are swapped out. */
struct counted_present {
    bool known; /* false: a core file, no pagemap, or too much to look at */
    uint64_t in_use, sampling, slabs, padding, free_pages, pinned; /* as counted, or told apart */
    uint64_t slabs_of[CLASSES_MAX];                                /* slabs, by size class */
    bool has_own;                                                  /* the next one is known */
    uint64_t own;      /* the blocks of jemalloc's own data */
    bool has_retained; /* the next one is known */
    /* Address space that is kept without objects: jemalloc has given back what was in it. */
    uint64_t retained;
};

struct counted {
    struct stats_gauges gauges; /* as jemalloc would count them */
    unsigned known;             /* 1 << enum ctl_gauge of those that are; the others are 0 */
    /*
     * Bytes of the objects that the program has: those of their own classes, without what follows,
     * but with internal. Objects that a thread keeps for its next allocation count as in use.
     */
    uint64_t in_use;
    /*
     * Bytes that sampled small objects take above their own class, and those that were freed and
     * are kept by a thread. gauges.allocated counts them and the objects, up to 5.3.0; since
     * 5.3.1 it counts neither.
     */
    uint64_t sampling;
    bool has_sampling;   /* the last two members are known */
    uint64_t internal;   /* bytes of jemalloc's own objects, which metadata has, too; or 0 */
    uint64_t free_pages; /* dirty and muzzy ones; 0 unless has_free_pages */
    bool has_free_pages;
    uint64_t slabs; /* bytes of slabs without an object */
    bool has_slabs;
    struct counted_present present;
    double share;     /* of the memory whose records were read; below 1 the sums are estimates */
    size_t unsettled; /* extents that are left out, because they changed meanwhile */
    uint64_t at_ns;   /* CLOCK_MONOTONIC: the middle of the pass */
};

static inline bool counted_has(const struct counted *counted, enum ctl_gauge gauge)
{
    return counted->known & 1u << gauge;
}

/* One pass over the records; limit as in struct extents_pass. Faults of extents_each. */
fault_code counted_read(struct extents *extents, const struct reader_source *source, uint64_t limit,
                        struct counted *counted, struct fault *fault);
