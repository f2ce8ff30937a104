/* The sums of a process's live objects, by size class, from the records in its memory. */
#pragma once

#include "jemalloc/extents/classes.h"
#include "jemalloc/extents/extents.h"

/* Objects of one small class, in its slabs. */
struct slab_total {
    uint64_t slabs, nonfull; /* nonfull: with free objects */
    uint64_t objects;        /* in use, or kept by a thread for its next allocation */
};

/*
 * Objects that have an extent of their own: of a large class, or sampled ones of a small class,
 * which stats.* counts in the smallest large class up to 5.3.0.
 */
struct large_total {
    uint64_t objects;
    uint64_t bytes; /* usable; extents are larger by a page each, or by the rest of a page */
};

struct extent_totals {
    struct classes classes;
    struct slab_total slab[CLASSES_MAX]; /* of classes.bins */
    struct large_total large[CLASSES_MAX];
    struct extents_pass pass; /* pass.share below 1: the sums are those of that share */
};

/* One pass over the records; limit as in struct extents_pass. Faults of extents_each. */
fault_code totals_read(struct extents *extents, uint64_t limit, struct extent_totals *totals,
                       struct fault *fault);

/* One size class. Objects that a thread keeps for its next allocation count as in use. */
struct class_total {
    uint64_t objects, bytes; /* in use; a large object may be smaller than its class: 5.3.1 */
    uint64_t free;           /* bytes of its slabs without object */
};

/* Sums up what was read of a class, below classes.count: of the share, not of all. */
struct class_total totals_of_class(const struct extent_totals *totals, unsigned class);

/* Returns the estimate for all memory of a number of what was read: equal if share is 1. */
uint64_t totals_estimate(const struct extent_totals *totals, uint64_t read);
