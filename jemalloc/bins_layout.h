/* The names of the numbers of size classes and arenas. Internal to jemalloc/bins*.c. */
#pragma once

#include "jemalloc/bins.h"

/* Which releases have a name. BINS_JSON: only their report in JSON, which has the others, too. */
enum { BINS_4 = 1, BINS_5 = 2, BINS_521 = 4, BINS_JSON = 8, BINS_ALL = BINS_4 | BINS_5 };

struct bins_leaf {
    const char *name; /* NULL: the end of the table */
    enum ctl_type type;
    unsigned where;
    size_t offset; /* of a uint64_t */
};

/* Of struct bin: what is constant, and what is counted. */
extern const struct bins_leaf bins_constants[], bins_leaves[];
/* Of struct large_class. */
extern const struct bins_leaf bins_large_leaves[];

/* The numbers of an arena beside its classes. */
struct bins_counts {
    uint64_t threads, uptime_ns, pages_active, pages_dirty, pages_muzzy, retained, resident, cached;
    uint64_t small, large, huge;                               /* in use */
    uint64_t base, internal, metadata_mapped, metadata_in_use; /* their sum is the metadata */
};
extern const struct bins_leaf bins_counts_leaves[];

/* Large classes: lextents since 5.0; before that runs and chunks. */
struct bins_kind {
    const char *count;   /* "arenas.nlextents" */
    const char *sizes;   /* "arenas.lextent" */
    const char *members; /* "lextents" */
    const char *sizes_member;
};
enum { BINS_LEXTENTS, BINS_KINDS = 3 };
extern const struct bins_kind bins_kinds[BINS_KINDS];

/* Fills the numbers of an arena, with pages of that size. */
void bins_take_counts(struct arena_bins *arena, const struct bins_counts *counts, uint64_t page);
