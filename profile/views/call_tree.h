/*
 * The stacks of a profile as a tree of calls, from the root or from the
 * allocating function. Only calls that are large enough become nodes: the tree
 * of 100,000 stacks has millions of calls, of which few are ever shown.
 */
#pragma once

#include "profile/views/display.h"

/* What stands in the place of a function. */
enum {
    CALL_SELF = UINT32_MAX,        /* the part of its parent that no call below it has */
    CALL_SMALLER = UINT32_MAX - 1, /* all calls below its parent that are too small */
};

struct call_node {
    uint32_t
        function;  /* the first one with its name, in locations.functions; or one of the above */
    unsigned line; /* of all its calls; 0: unknown, or they differ */
    uint32_t first, count; /* its children, in nodes: the largest first, CALL_SMALLER last */
    uint32_t calls;        /* of CALL_SMALLER: the number of calls */
    double largest;        /* of CALL_SMALLER: the largest weight of one of them */
    uint32_t depth;        /* 0: the root */
    bool cut;              /* the calls below it are left out because of display->depth */
    struct amount amount, objects; /* the sum of its children's; nothing is lost or counted twice */
    double weight;                 /* of amount; in a comparison the larger of growth and shrinkage
                                      of its stacks */
};

struct call_tree {
    struct call_node *nodes; /* the first one is the root, which stands for no call */
    size_t count, capacity;
    double least; /* a call with a smaller weight is not a node */
};

/*
 * Makes the tree: calls of at least display->least of the whole, at most
 * display->rows of them, to which the only call below another adds nothing, and
 * display->depth levels. False: out of memory. Call
 * call_tree_free in every case.
 */
bool call_tree_make(struct call_tree *tree, const struct samples *samples,
                    const struct display *display);
void call_tree_free(struct call_tree *tree);

/*
 * Returns the child that continues the line of a node: the only one, apart from
 * what is too small to be a call of its own. NULL: there are several, or none.
 */
const struct call_node *call_tree_only_child(const struct call_tree *tree,
                                             const struct call_node *node);

/* True if it stands for a call. */
static inline bool call_node_is_call(const struct call_node *node)
{
    return node->function < CALL_SMALLER;
}
