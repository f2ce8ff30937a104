/* Growing lists, large ones, and their sorting. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

/*
 * ---- large lists ----
 *
 * Lists of many megabytes, each in a mapping of its own: they grow with mremap(2),
 * which moves pages and never copies bytes, and use huge pages where the kernel has them.
 */

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

/*
 * ---- sorting ----
 *
 * Sorting of many words in ascending order, in a time linear in their number whatever they are: by
 * one byte after the other, those that differ.
 */

/* scratch has space for as many. */
void sort_words(uint64_t *words, uint64_t *scratch, size_t count);

/*
 * Sorts pairs of two words by the first; those with the same first word keep their order. count is
 * the number of pairs; scratch has space for as many.
 */
void sort_pairs(uint64_t *pairs, uint64_t *scratch, size_t count);
