/*
 * Which calls of a profile are shown: focus, ignore, hide and show with the
 * meaning that they have in pprof (its Profile.FilterSamplesByName), and the
 * allocator's own calls, which are left out.
 */
#pragma once

#include "profile/locations.h"

#include <regex.h>

/* Compiled with REG_EXTENDED | REG_NOSUB; matched with functions, files and mapped files. NULL: no
 * filter. */
struct filter {
    const regex_t *focus;  /* only stacks with a call that matches */
    const regex_t *ignore; /* no stack with a call that matches */
    const regex_t *hide;   /* calls that match are left out of their stacks */
    const regex_t *show;   /* calls that do not match are left out of their stacks */
};

/* What the filter says of a location. */
struct filter_mark {
    bool ignored, focused, hidden;
    bool allocator; /* it is jemalloc's, by its module or its name, or has no name */
    bool certain;   /* and is so by more than the lack of a name */
};

/*
 * A mark for each location; hidden lines are taken out of the locations. NULL:
 * out of memory. The caller frees it.
 */
struct filter_mark *filter_apply(const struct filter *filter, struct locations *locations);

/* A library of jemalloc's name: all calls in it are the allocator's. */
bool filter_is_allocator_module(const struct location_mapping *mapping);

/*
 * How many of the innermost calls of a stack are the allocator's. At least one
 * call is left. list: depth locations, innermost first.
 */
uint32_t filter_allocator_calls(const struct filter_mark *marks, const uint32_t *list,
                                uint32_t depth);
