/*
 * Lists of many megabytes, each in a mapping of its own: they grow with mremap(2),
 * which moves pages and never copies bytes, and use huge pages where the kernel has them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Makes space for `wanted` items of `item` bytes. Returns the list, moved if it had to
 * grow; NULL if out of memory, and then the old list stays valid. A list of capacity 0 is NULL.
 */
void *large_list_grow(void *list, size_t *capacity, size_t wanted, size_t item);
void large_list_free(void *list, size_t capacity, size_t item);

/* Makes space for `wanted` items; false: out of memory, and the list is as before. */
#define LARGE_LIST_RESERVE(list, capacity, wanted)                                                 \
    ({                                                                                             \
        void *list_moved = large_list_grow(list, &(capacity), wanted, sizeof *(list));             \
        if (list_moved)                                                                            \
            (list) = list_moved;                                                                   \
        list_moved != NULL;                                                                        \
    })
