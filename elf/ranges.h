/* Sorted ranges of code addresses, searched for every word of a stack. */
#pragma once

#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>

struct code_range {
    remote_addr start, end;
    const char *what; /* static text, for messages: "the dynamic loader" */
};

struct code_ranges {
    struct code_range *list;
    size_t count;
};

/* Adds [start, end); ignores an empty range. False: out of memory. */
bool ranges_add(struct code_ranges *ranges, remote_addr start, remote_addr end, const char *what);
/* Call it once after the last ranges_add. */
void ranges_sort(struct code_ranges *ranges);
/* Returns the range that contains addr, or NULL. */
const struct code_range *ranges_find(const struct code_ranges *ranges, remote_addr addr);
void ranges_free(struct code_ranges *ranges);
