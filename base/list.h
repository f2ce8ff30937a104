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
