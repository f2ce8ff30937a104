/*
 * How much of jemalloc's extents is in memory. Its counts are of address space: pages that nobody
 * has touched yet, and those that are swapped out, are in no RSS.
 */
#pragma once

#include "host/pagemap.h"

/* A window of pages moves over the process; extents come in the order of addresses. */
struct presence {
    const struct pagemap *map;
    enum page_state states[PAGEMAP_PIECE];
    remote_addr start;    /* of the window; UINT64_MAX: none */
    uint64_t pieces_left; /* that may still be read: 0.1 us for each of their pages */
    bool known;           /* each range so far; false: there is no pagemap, or it is too much */
};

/* limit: bytes of address space that are looked at. map must outlive it. */
void presence_begin(struct presence *presence, const struct pagemap *map, uint64_t limit);

/* Returns the bytes of [start, start + len) in memory; 0 once presence->known is false. */
uint64_t presence_of(struct presence *presence, remote_addr start, uint64_t len);
