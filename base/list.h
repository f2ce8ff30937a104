/* Lists that grow. */
#pragma once

#include <stddef.h>
#include <stdlib.h>

enum { LIST_FIRST = 64 };

/*
 * Room for one more item: the list, moved if it had to grow, or NULL when out
 * of memory (the old one is then still the caller's).
 */
static inline void *list_grow(void *list, size_t *room, size_t count, size_t item)
{
    size_t larger = *room ? *room * 2 : LIST_FIRST;
    void *moved;

    if (count < *room)
        return list;
    moved = reallocarray(list, larger, item);
    if (moved)
        *room = larger;
    return moved;
}
