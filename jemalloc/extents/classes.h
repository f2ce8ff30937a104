/*
 * The size classes of a build, from its own table: bin_infos (arena_bin_info in 5.0), which
 * says for each small class how large an object and a slab are, and how many objects fit. It
 * is found by its contents. The large classes follow from it: four for each power of
 * two (sc.h).
 */
#pragma once

#include "jemalloc/extents/heap_pages.h"

enum { CLASSES_MAX = 256 }; /* 8 bits of a record */

struct extent_class {
    uint64_t size, slab_bytes; /* large: 0 */
    uint32_t objects;          /* of a slab; large: 0 */
};

struct classes {
    uint64_t page; /* of jemalloc */
    unsigned bins; /* small classes, which come first; 0: not found */
    unsigned count;
    struct extent_class list[CLASSES_MAX];
};

/* False: the table was not found. */
bool classes_find(struct classes *classes, const struct heap_pages *heap);
