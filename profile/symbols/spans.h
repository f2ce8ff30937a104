/*
 * Ranges of addresses that may nest and overlap, turned into an index for
 * binary search: at each address the deepest range wins; of equally deep ones
 * the one that starts last. Any input is valid.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPANS_NONE UINT32_MAX

enum { SPANS_MAX = 1 << 24 }; /* during sorting one takes up to 80 bytes */

struct span {
    uint64_t start, end;
    uint32_t depth;
    uint32_t value; /* must not be SPANS_NONE */
};

struct spans {
    struct span *list;
    size_t count, capacity;
};

/* Adds a range; ignores an empty one. False: out of memory, or there are SPANS_MAX of them. */
bool spans_add(struct spans *spans, struct span span);
/* Call it once after the last spans_add: sorts the list and makes it disjoint. */
bool spans_finish(struct spans *spans);
/* Returns the value at address, or SPANS_NONE. */
uint32_t spans_find(const struct spans *spans, uint64_t address);
void spans_free(struct spans *spans);
