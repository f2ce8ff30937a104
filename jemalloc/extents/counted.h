/*
 * The gauges of stats.*, as a write of "epoch" would make them now, counted from jemalloc's own
 * records (extents.h): nothing is called and nothing is stopped.
 */
#pragma once

#include "jemalloc/extents/extents.h"
#include "jemalloc/stats.h"
#include "jemalloc/stripped/getters.h"

struct counted {
    struct stats_gauges gauges; /* as jemalloc would count them */
    unsigned known;             /* 1 << enum ctl_gauge of those that are; the others are 0 */
    /*
     * Bytes of gauges.allocated that exist because jemalloc samples: what sampled small objects
     * take above the class of their own size. allocated - sampling is what the program has.
     */
    uint64_t sampling;
    bool has_sampling;   /* the last member is known: the layout of this release is */
    uint64_t free_pages; /* dirty and muzzy ones; 0 unless has_free_pages */
    bool has_free_pages;
    uint64_t between; /* bytes of slabs without an object */
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
