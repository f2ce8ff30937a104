/* Free memory in the slabs of a process, shared out to the stacks whose objects keep the slabs. */
#pragma once

#include "profile/samples.h"

/* One size class of an allocator that keeps objects of one size in slabs. */
struct waste_class {
    uint64_t size;     /* bytes of an object */
    uint64_t objects;  /* in use */
    uint64_t slabs;    /* that have objects in use */
    uint64_t per_slab; /* objects that fit into one slab */
    uint64_t slab_bytes;
    uint64_t requests; /* allocations since the start of the process; 0: unknown */
};

/* Returns the bytes that are free in its slabs: (slabs * per_slab - objects) * size. */
uint64_t waste_bytes(const struct waste_class *class);
