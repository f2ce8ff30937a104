/*
 * The statistics of size classes, after a write of epoch: stats.arenas.<i>.bins.<j>.*,
 * arenas.bin.<j>.* (jemalloc(3)). Needs no profiling.
 *
 * jemalloc counts an object that a thread cache keeps for its next allocation as in use:
 * bins.cached is the sum of these.
 */
#pragma once

#include "jemalloc/stats.h"

/* A small size class. All numbers are of the last write of epoch, and of all arenas. */
struct bin {
    uint64_t size, per_slab, slab_bytes;
    uint64_t objects, slabs, nonfull; /* in use; slabs with free regions: bins.has_nonfull */
};

struct bins {
    char version[VERSION_TEXT_MAX];
    struct stats_gauges gauges;
    struct bin *list; /* all small classes, in ascending order of size */
    size_t count;
    uint64_t cached;      /* bytes in thread caches: since_50 */
    unsigned initialized; /* arenas */
    bool has_nonfull;     /* since 5.2.1 */
    bool since_50;
};

/*
 * Reads the small classes of the sum of all arenas, again if another write of epoch came between,
 * but only twice. FAULT_STATS_ABSENT as stats_read.
 * FAULT_CTL_REFUSED. Free it with bins_free, after a failure, too.
 */
fault_code bins_read(struct injection *injection, const struct instance *instance,
                     struct bins *bins, struct fault *fault);
void bins_free(struct bins *bins);
