/*
 * By how much the objects of each size have grown between two moments, from jemalloc's
 * own records in the memory of the process (jemalloc/extents/extents.h). Nothing is
 * called and nothing is stopped, and profiling is not needed.
 */
#pragma once

#include "jemalloc/extents/totals.h"
#include "run/attachment.h"

/* The objects at one moment. */
struct object_look {
    bool known; /* false: no jemalloc, or its records are not known or not read as a whole */
    struct extent_totals totals;
};

struct object_growth_row {
    uint64_t size; /* bytes of an object */
    int64_t objects, bytes;
};

struct object_growth {
    bool known;
    int64_t bytes; /* of all sizes */
    struct object_growth_row
        rows[CLASSES_MAX]; /* those that have changed; the largest growth first */
    size_t count;
};

/* Looks at the objects of a process that attachment_map has opened. Unknown at the deadline. */
void object_look_take(struct object_look *look, struct attachment *attachment,
                      const struct deadline *deadline);
/* Compares two looks of one process. Objects that a thread keeps for later count as in use. */
void object_growth_make(struct object_growth *growth, const struct object_look *before,
                        const struct object_look *after);
