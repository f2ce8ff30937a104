/*
 * The calls of a profile that are shown: focus, ignore, hide and show with the
 * meaning that they have in pprof (its Profile.FilterSamplesByName). The
 * allocator's own calls are left out.
 */
#pragma once

#include "profile/locations.h"

#include <regex.h>

/*
 * Compiles an extended regular expression for regexec(3) so that a match takes time in
 * proportion to the text: glibc's matcher begins again at each place of a text that does not
 * match, which takes a minute for some names of 60 KB, and names are a stranger's. Returns 0 or a
 * code for regerror(3): REG_ESUBREG for a back-reference, which is none of POSIX's and takes
 * exponential time. regfree(3) releases it, unless it failed.
 */
int filter_compile(regex_t *regex, const char *pattern);
/* True if the text matches; a newline in it counts as the '?' that is shown. */
bool filter_matches(const regex_t *regex, const char *text);

/*
 * Compiled by filter_compile; matched with functions, source files
 * and mapped files. NULL: no filter.
 */
struct filter {
    const regex_t *focus;  /* only stacks with a call that matches */
    const regex_t *ignore; /* no stack with a call that matches */
    const regex_t *hide;   /* calls that match are left out of their stacks */
    const regex_t *show;   /* calls that do not match are left out of their stacks */
};

/* The patterns that something matches. */
enum { FILTER_FOCUS = 1, FILTER_IGNORE = 2, FILTER_HIDE = 4, FILTER_SHOW = 8 };

/* The result of the filter for a location. */
struct filter_mark {
    unsigned char matches; /* FILTER_FOCUS ... */
    bool ignored, focused, hidden;
    bool allocator;   /* it belongs to jemalloc, by its module or its name, or has no name */
    bool entry;       /* a function of malloc's kind, by its name; of any module */
    uint32_t mapping; /* of the location */
    bool certain;     /* allocator is due to more than the lack of a name */
};

/*
 * Returns a mark for each location, owned by the caller; removes hidden lines
 * from the locations. NULL: out of memory.
 */
struct filter_mark *filter_apply(const struct filter *filter, struct locations *locations);

/* True if the mapping is a library named like jemalloc: all calls in it belong to the allocator. */
bool filter_is_allocator_module(const struct location_mapping *mapping);

/*
 * Returns the number of innermost calls of a stack that belong to the
 * allocator. At least one call is left. list: depth locations, innermost first.
 */
uint32_t filter_allocator_calls(const struct filter_mark *marks, const uint32_t *list,
                                uint32_t depth);
