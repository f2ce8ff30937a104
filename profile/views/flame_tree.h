/* Stacks as the tree of boxes of a flame graph; small boxes are joined. */
#pragma once

#include "profile/views/stacks.h"

/* Where a call is made, or memory allocated. */
struct flame_place {
    uint32_t function; /* in the locations' functions */
    uint32_t line;     /* 0: unknown */
    uint32_t mapping;  /* in the locations' mappings, or TABLE_NONE */
};

enum { FLAME_SMALLER = UINT32_MAX };

struct flame_node {
    uint32_t name; /* a group, or FLAME_SMALLER: the root, and boxes of joined calls */
    uint32_t depth;
    uint32_t joined; /* the number of calls that the box stands for; 0: it is a call */
    bool has_places; /* its stacks call at several places */
    uint32_t sample; /* the largest of its stacks */
    double largest;  /* the weight of that one */
    struct amount amount;
};

/* In the order of the stacks: a node, then everything below it. */
struct flame_tree {
    struct flame_node *nodes;
    size_t count, capacity;
    uint32_t *open; /* the nodes from the root to the present position */
    uint32_t open_count;
    struct flame_node *smaller; /* for each open node, the joined small nodes below it */
    double least;
    bool is_inverted;
    bool is_full; /* it has FLAME_NODES_MAX nodes, and lacks what came after */
};

/* Nodes of a tree beside its open ones: more could never be written to a page. */
enum { FLAME_NODES_MAX = 512 << 10 };

/* Returns how much an amount counts in a comparison: the larger of the two values. */
double flame_weight(const struct amount *amount);

/* A position in a stack: a deep one is walked once, not once for each of its nodes. */
struct flame_cursor {
    uint32_t sample, depth;
    struct names_walk at;
    struct flame_place place;
};

/*
 * Returns the place in the largest stack of a node, which must be a call. The
 * cursor belongs to the tree; start with zeros.
 */
struct flame_place flame_place(const struct flame_tree *tree, const struct samples *samples,
                               const struct flame_node *node, struct flame_cursor *cursor);

/* Prepares for trees of these stacks; free with flame_tree_free in every case. */
bool flame_tree_init(struct flame_tree *tree, const struct stacks *stacks);
/*
 * Makes the tree, again if there is one. Nodes below `least` are joined in a
 * box of their caller. is_inverted: of the stacks. Ends early if it is_full: make
 * it again with a larger least. False: out of memory.
 */
bool flame_tree_grow(struct flame_tree *tree, const struct samples *samples,
                     const struct stacks *stacks, double least, bool is_inverted);
void flame_tree_free(struct flame_tree *tree);
