/*
 * The statistics of size classes and arenas, after a write of epoch: stats.arenas.<i>.bins.<j>.*,
 * stats.arenas.<i>.lextents.<j>.*, arenas.bin.<j>.* (jemalloc(3)). Needs no profiling.
 *
 * jemalloc counts an object that a thread cache keeps for its next allocation as in use:
 * arena_bins.cached is the sum of these.
 */
#pragma once

#include "jemalloc/stats.h"

/* A small size class. All numbers are of the last write of epoch. */
struct bin {
    uint64_t size, per_slab, slab_bytes;
    uint64_t objects, slabs, nonfull; /* in use; slabs with free regions: bins.has_nonfull */
    uint64_t allocations, frees, requests;
};

/* A large size class. */
struct large_class {
    uint64_t size, objects;
    uint64_t bytes; /* of the objects, which may be smaller than the class; 0: unknown */
    uint64_t allocations, frees, requests;
};

enum { ARENA_NAME_SIZE = 33 }; /* bytes with the NUL; ARENA_NAME_LEN is 32 */

/* One arena, or the sum of all. */
struct arena_bins {
    int arena;                  /* -1: the sum */
    char name[ARENA_NAME_SIZE]; /* since 5.3.1; "": unknown */
    uint64_t threads;
    uint64_t allocated, active, dirty, muzzy, retained; /* bytes; muzzy since 5.0 */
    uint64_t metadata, resident, cached;                /* bytes; the last two since 5.0, else 0 */
    uint64_t uptime_ns;                                 /* since 5.0; 0: unknown */
    struct bin *bins;                                   /* all, in ascending order of size */
    size_t bin_count;
    struct large_class *large; /* those in use, or known to have been used; ascending */
    size_t large_count;
};

struct bins {
    char version[VERSION_TEXT_MAX];
    struct stats_gauges gauges;
    struct arena_bins *arenas; /* the sum first; then each initialized one, if asked for */
    size_t count;
    unsigned initialized; /* arenas */
    bool has_nonfull;     /* since 5.2.1 */
    bool since_50;        /* muzzy, resident, cached and uptime_ns are known */
    bool mixed; /* another write of epoch came between, each time: not all of one moment */
};

/* Returns the bytes that are free in the slabs of a class; 0 if the counts contradict it. */
uint64_t bin_waste(const struct bin *bin);

/*
 * Reads the small classes of the sum of all arenas. FAULT_STATS_ABSENT as stats_read.
 * FAULT_CTL_REFUSED. Free it with bins_free, after a failure, too.
 */
fault_code bins_read(struct injection *injection, const struct instance *instance,
                     struct bins *bins, struct fault *fault);
void bins_free(struct bins *bins);
