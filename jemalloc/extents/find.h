/*
 * Finds the tree, and proves layout and tree together. Its root lies in the module's static data;
 * an entry of the root points to memory of the heap and stands at the index of the heap's
 * addresses. So each pointer there says where the root would be; the right place is the one from
 * which pages lead to records that lead back to them.
 */
#pragma once

#include "jemalloc/extents/tree.h"
#include "jemalloc/reader/batch.h"

struct found_tree {
    struct tree tree;
    struct record_rules rules; /* classes are set by the caller */
    size_t proven, refuted;    /* records that were looked at */
};

enum find_end { FIND_PROVEN, FIND_NONE, FIND_REFUTED, FIND_OUT_OF_MEMORY };

/* found->rules.classes is set. version comes first, then the other layouts. */
enum find_end tree_find(struct found_tree *found, const struct heap_pages *heap,
                        struct batch *batch, struct version version);
