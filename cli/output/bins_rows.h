/* The rows of a table of size classes, and their sums. */
#pragma once

#include "run/bins_look.h"

enum bins_order { BINS_BY_LIVE, BINS_BY_WASTE, BINS_BY_REQUESTS, BINS_BY_SIZE };

/* A size class that is in use, or was. */
struct bins_row {
    uint64_t size, objects, live; /* live: bytes of the objects */
    bool large;                   /* then the next four are 0 */
    uint64_t per_slab, slabs, nonfull, waste;
    uint64_t allocations, frees, requests; /* since the start */
    double rate;                           /* requests per second; below 0: unknown */
};

struct bins_rows {
    struct bins_row *list;
    size_t count;
    uint64_t objects, live, waste;
    const struct bins_row *worst; /* with most waste; NULL: there is none */
};

/* Makes the rows of an arena, or of the sum. False: out of memory. bins_rows_free. */
bool bins_rows_make(struct bins_rows *rows, const struct bins_looks *looks,
                    const struct arena_bins *arena, enum bins_order order);
void bins_rows_free(struct bins_rows *rows);

/* Returns the percentage of part in part + rest; 0 if both are 0. */
double bins_percent(uint64_t part, uint64_t rest);

/* Returns the bytes that are free in the slabs of an arena. */
uint64_t arena_waste(const struct arena_bins *arena);
