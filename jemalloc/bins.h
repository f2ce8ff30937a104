/*
 * The statistics of size classes and arenas, after a write of epoch: stats.arenas.<i>.bins.<j>.*,
 * stats.arenas.<i>.lextents.<j>.*, arenas.bin.<j>.* (jemalloc(3)). Needs no profiling.
 */
#pragma once

#include "jemalloc/stats.h"

/* A small size class. All numbers are of the last write of epoch. */
struct bin {
    uint64_t size, per_slab, slab_bytes;
    uint64_t objects, slabs, nonfull; /* in use; slabs with free regions */
    uint64_t allocations, frees, requests;
};

/* A large size class. */
struct large_class {
    uint64_t size, objects, allocations, frees, requests;
};

/* One arena, or the sum of all. */
struct arena_bins {
    int arena; /* -1: the sum */
    uint64_t threads;
    uint64_t active, dirty, muzzy, retained; /* bytes; has_*: as struct stats_gauges */
    uint64_t metadata, resident;
    struct bin *bins;
    size_t bin_count;
    struct large_class *large;
    size_t large_count;
};

struct bins {
    struct stats_gauges gauges;
    struct arena_bins *arenas; /* the sum first; then each arena, if asked for */
    size_t count;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
};

/* Reads the sum of all arenas; with each also each arena. FAULT_STATS_ABSENT as stats_read. */
fault_code bins_read(struct injection *injection, const struct instance *instance, bool each,
                     struct bins *bins, struct fault *fault);
/* Takes the same from a report of malloc_stats_print("J"). FAULT_STATS_NO_JSON: it is none. */
fault_code bins_parse(struct bins *bins, const char *json, size_t len, struct fault *fault);
void bins_free(struct bins *bins);
