/* Binary search in a sorted list. */
#pragma once

#include <stddef.h>

/*
 * Returns the first index i in [0, count) for which the condition on i is true; count
 * if there is none. It must be true for all following indexes, too.
 */
#define SEARCH_FIRST(i, count, condition)                                                          \
    ({                                                                                             \
        size_t search_low = 0, search_high = (count);                                              \
        while (search_low < search_high) {                                                         \
            const size_t i = search_low + (search_high - search_low) / 2;                          \
            if (condition)                                                                         \
                search_high = i;                                                                   \
            else                                                                                   \
                search_low = i + 1;                                                                \
        }                                                                                          \
        search_low;                                                                                \
    })
