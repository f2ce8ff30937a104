/* Growing lists. */
#pragma once

#include <stddef.h>
#include <stdlib.h>

enum { LIST_FIRST = 64 };

/*
 * Makes space for one more item. Returns the list, moved if it had to grow; NULL
 * if out of memory, and then the old list stays valid.
 */
static inline void *list_grow(void *list, size_t *capacity, size_t count, size_t item)
{
    size_t larger = *capacity ? *capacity * 2 : LIST_FIRST;
    void *moved;

    if (count < *capacity)
        return list;
    moved = reallocarray(list, larger, item);
    if (moved)
        *capacity = larger;
    return moved;
}

/*
 * Makes space for one more item in a list of count items. False: out of memory; the
 * list is then as before.
 */
#define LIST_GROW(list, capacity, count)                                                           \
    ({                                                                                             \
        void *list_moved = list_grow(list, &(capacity), count, sizeof *(list));                    \
        if (list_moved)                                                                            \
            (list) = list_moved;                                                                   \
        list_moved != NULL;                                                                        \
    })
