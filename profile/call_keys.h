/* What makes two calls the same row or node: their function, or their line. */
#pragma once

#include "profile/locations.h"

struct call_keys {
    uint32_t *of_line; /* for each of locations.lines: a number below count */
    size_t count;
};

/*
 * by_line: functions of the same name, in the same file and line, are the same;
 * otherwise all functions of the same name are. False: out of memory.
 */
bool call_keys_make(struct call_keys *keys, const struct locations *locations, bool by_line);
void call_keys_free(struct call_keys *keys);
