/* Free memory in the slabs of a process, shared out to the stacks whose objects keep the slabs. */
#pragma once

#include "profile/samples.h"

/* One size class of an allocator that keeps objects of one size in slabs. */
struct waste_class {
    uint64_t size;     /* bytes of an object */
    uint64_t objects;  /* in use */
    uint64_t slabs;    /* that have objects in use */
    uint64_t nonfull;  /* of them: with free space; slabs: unknown */
    uint64_t per_slab; /* objects that fit into one slab */
    uint64_t absent;   /* bytes that are free, but not in memory: never touched, or swapped out */
    uint64_t own;      /* of objects: known to be the allocator's own, which no sample is of */
};

/*
 * Returns the bytes that are free in its slabs, and in memory:
 * (slabs * per_slab - objects) * size - absent. Saturates.
 */
uint64_t waste_bytes(const struct waste_class *class);
/* Returns the part of its objects that are in full slabs, and so keep no free space. */
double waste_full_part(const struct waste_class *class);
/*
 * Returns how many samples there would be if so many objects of the class, which are not sampled
 * themselves, had been allocated while one byte in `period` was sampled.
 */
double waste_expected(const struct waste_class *class, double objects, uint64_t period);

/* The free space of a class that the objects of one stack keep. */
struct waste_row {
    uint32_t sample; /* the first one with these calls; TABLE_NONE: the stacks are not known */
    bool own;        /* of the allocator itself, which has no sample */
    uint32_t stack;  /* rows of the same calls have the same one; without a sample TABLE_NONE */
    size_t class;    /* index in classes */
    double objects;  /* of the stack in slabs of the class, as estimated */
    double variance; /* of objects */
    uint64_t bytes;  /* of the free space */
    double error;    /* of bytes: two standard deviations of the sampling; 0: exact */
    double least;    /* bytes, if as many as possible of its objects are in full slabs */
    double most;     /* and as few as possible; both include the error */
    bool mixed;      /* the stack has objects of several sizes: those of this one are a guess */
};

struct waste {
    const struct waste_class *classes; /* of the caller */
    size_t class_count;
    struct waste_row *rows; /* the largest first; without those of 0 bytes */
    size_t count;
    uint64_t bytes;    /* of all classes, which is the sum of the rows; saturates */
    uint64_t unknown;  /* of them: of rows without a sample, but not the allocator's own */
    uint64_t own;      /* of them: of rows of the allocator's own */
    bool has_profile;  /* samples were given */
    double unsharable; /* objects of stacks that are larger than all classes */
};

/*
 * Shares the free space of each class out in proportion to the objects that the stacks have in it:
 * a profile has no addresses, so that nobody knows which slabs they are in. A stack counts for the
 * class of its mean size; if that is between two classes, for both (mixed). Objects that were
 * sampled do not count, because they are not in slabs (jemalloc's arena_prof_promote, 4.0 and
 * later). If the class has more objects than the samples explain, beyond their error, the rest of
 * the free space has a row without a sample: nobody knows whether they were
 * allocated while nothing was sampled, are kept by threads for their next allocations, or are of a
 * stack of which chance took no sample (waste_expected). samples NULL: all rows are without.
 * Neither is copied. False: out of memory. Call waste_free in every case.
 */
bool waste_make(struct waste *waste, const struct waste_class *classes, size_t class_count,
                const struct samples *samples);
void waste_free(struct waste *waste);
