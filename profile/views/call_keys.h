/* What makes two calls the same row or node: their function, or their line. */
#pragma once

#include "profile/locations.h"

enum call_key {
    KEY_FUNCTION, /* the name of a function as it is shown */
    KEY_LINE,     /* and its source file, and the line in it */
};

struct call_keys {
    uint32_t *of_line; /* for each of locations.lines: a number below count */
    size_t count;
};

/* False: out of memory. */
bool call_keys_make(struct call_keys *keys, const struct locations *locations, enum call_key key);
void call_keys_free(struct call_keys *keys);
