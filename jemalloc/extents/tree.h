/*
 * The radix tree from page to extent (rtree.h): an array of pointers in jemalloc's static
 * data, below it, where addresses have more than 48 bits, arrays of pointers again, and leaves
 * with an entry for each page. Built for 48 bits of address, an entry is one word; for 57,
 * which configure takes from the CPU of the build, two. No code reads beyond what a mapping
 * of the process asks for, so that forged arrays cost no time.
 */
#pragma once

#include "jemalloc/extents/record.h"

struct tree_shape {
    unsigned levels, bits; /* of the address, at each level */
    unsigned entry;        /* bytes of an entry of a leaf */
};

struct tree {
    const struct tree_shape *shape;
    remote_addr root;
};

enum { TREE_SHAPES = 2, TREE_ENTRY_MAX = 16 };
extern const struct tree_shape tree_shapes[TREE_SHAPES];

/* Returns the bytes of memory that a leaf is for. */
static inline uint64_t tree_leaf_span(const struct tree_shape *shape)
{
    return UINT64_C(4096) << shape->bits;
}

/* Returns the index of an address in the root. */
uint64_t tree_root_index(const struct tree_shape *shape, remote_addr addr);

/*
 * Returns the address of the entry for the page of addr; 0: there is none. Sets *end to where
 * the leaf's memory, or the memory that has no leaf, ends.
 */
remote_addr tree_entry(const struct tree *tree, const struct heap_pages *heap, remote_addr addr,
                       remote_addr *end);

/* Takes an entry's bytes. */
void tree_take_leaf(struct leaf *leaf, const struct tree_shape *shape,
                    const struct record_layout *layout, const unsigned char *bytes);
