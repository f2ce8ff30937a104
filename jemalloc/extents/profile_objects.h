/*
 * The objects that jemalloc has itself because it samples, in the heap like all others: of each
 * stack a gctx, of each stack and thread a tctx, of each thread its tdata, and hash tables. They
 * grow with the first samples, and are no growth of the program.
 */
#pragma once

#include "jemalloc/extents/origins.h"

struct profile_objects {
    const struct reader_layout *layout; /* NULL: unknown */
    struct reader reader;               /* stacks, threads: 0 if they were not found */
    struct batch *batch;
    struct model threads; /* of the last time that they could be read */
    unsigned searches;    /* for the stacks, since it was opened */
};

/* Finds what can be found. source and batch must outlive it. */
void profile_objects_open(struct profile_objects *objects, const struct reader_source *source,
                          struct batch *batch);
void profile_objects_close(struct profile_objects *objects);

/* Adds the objects of each size class to counts: those of the proven origins, and of threads. */
void profile_objects_count(struct profile_objects *objects, struct extents *extents,
                           const struct origin *origins, size_t origin_count,
                           uint64_t counts[CLASSES_MAX]);
