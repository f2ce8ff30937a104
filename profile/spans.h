/*
 * Ranges of addresses that may nest and overlap, made into an index that
 * answers by a binary search: at each address the deepest range wins, of
 * equally deep ones the one that starts last. Any input is legal.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPANS_NONE UINT32_MAX

enum { SPANS_MAX = 1 << 24 }; /* while it is sorted one takes up to 80 bytes */

struct span {
    uint64_t start, end;
    uint32_t depth;
    uint32_t value; /* not SPANS_NONE */
};

struct spans {
    struct span *list;
    size_t count, room;
};

/* An empty range is ignored. False: out of memory, or there are SPANS_MAX of them. */
bool spans_add(struct spans *spans, struct span span);
/* To be called once after the last spans_add: the list is sorted and disjoint then. */
bool spans_finish(struct spans *spans);
/* The value at address, or SPANS_NONE. */
uint32_t spans_find(const struct spans *spans, uint64_t address);
void spans_free(struct spans *spans);
