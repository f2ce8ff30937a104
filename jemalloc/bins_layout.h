/* The names of the numbers of size classes. Internal to jemalloc/bins*.c. */
#pragma once

#include "jemalloc/bins.h"

/* Which releases have a name. */
enum { BINS_4 = 1, BINS_5 = 2, BINS_521 = 4, BINS_ALL = BINS_4 | BINS_5 };

struct bins_leaf {
    const char *name; /* NULL: the end of the table */
    enum ctl_type type;
    unsigned where;
    size_t offset; /* of a uint64_t */
};

/* Of struct bin: what is constant, and what is counted. */
extern const struct bins_leaf bins_constants[], bins_leaves[];
