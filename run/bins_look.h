/*
 * One or two looks at the statistics of size classes, and what has changed between them.
 */
#pragma once

#include "jemalloc/bins.h"
#include "run/attachment.h"

struct bins_looks {
    struct bins first; /* with two looks; else empty */
    struct bins last;
    bool two;
    bool interrupted; /* Ctrl-C: the second look came early */
    /* What rates refer to: the time between the looks, or since jemalloc started; 0: unknown. */
    uint64_t interval_ns;
    bool memory;      /* read without a call: gauges.allocated is the sum of the objects in use */
    double share;     /* of the memory whose records were read; below 1 the counts are estimates */
    size_t unsettled; /* slabs and large objects left out, because they changed meanwhile */
};

struct bins_look_request {
    bool each;        /* each arena, too */
    uint64_t wait_ns; /* between two looks; 0: one look */
};

/*
 * After attachment_open: stops a thread once for each look, for some milliseconds. As bins_read;
 * FAULT_GONE if the process ends before the second look. bins_looks_free, after a failure, too.
 */
fault_code bins_look(struct bins_looks *looks, struct attachment *attachment,
                     const struct bins_look_request *request, struct fault *fault);
/*
 * After attachment_find: reads jemalloc's own records of slabs and objects, since 5.0 (extents.h).
 * Nothing is called or stopped. What jemalloc only counts, allocations, frees and requests, stays
 * unknown (bins.has_requests), and so do the arenas. FAULT_OBJECTS_UNREADABLE: see extents_open.
 */
fault_code bins_look_memory(struct bins_looks *looks, struct attachment *attachment,
                            struct fault *fault);
void bins_looks_free(struct bins_looks *looks);

/* Returns the same arena in the first look; NULL: it was not there, or there was one look. */
const struct arena_bins *bins_look_former(const struct bins_looks *looks,
                                          const struct arena_bins *arena);
