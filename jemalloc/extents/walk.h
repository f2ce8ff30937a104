/* Walks over the entries of the tree, of memory that the process has mapped. */
#pragma once

#include "jemalloc/extents/tree.h"

struct walk {
    const struct heap_pages *heap;
    const struct tree *tree;
    const struct record_rules *rules;
    bool unused; /* visits extents that are not in use, too: pages that are inaccessible, too */
    /* Called for the first entry seen of each extent in use; false: end. NULL: only count. */
    bool (*visit)(void *ctx, remote_addr page, const struct leaf *leaf);
    void *ctx;
    uint64_t seed, below; /* take the pages of the tree whose hash is less; UINT64_MAX: all */
    size_t pages;         /* out: pages of the tree that have contents */
    size_t read;          /* out: of these, taken */
    remote_addr last;     /* record of the entry before; 0: none */
};

/* False: ended by a visit, or late. */
bool walk_range(struct walk *walk, remote_addr start, remote_addr end);
/* All memory of the process that may be of the heap. */
bool walk_heap(struct walk *walk);
