#include "profile/views/flame_tree.h"
#include "base/list.h"

#include <math.h>
#include <string.h>

double flame_weight(const struct amount *amount)
{
    double now = fabs((double)amount->now), base = fabs((double)amount->base);
    return now > base ? now : base;
}

static struct flame_node *add_node(struct flame_tree *tree, uint32_t name, uint32_t depth)
{
    if (!LIST_GROW(tree->nodes, tree->capacity, tree->count))
        return NULL;
    tree->nodes[tree->count] = (struct flame_node){.name = name, .depth = depth};
    return &tree->nodes[tree->count++];
}

static void add_to_caller(struct flame_node *caller, const struct flame_node *node)
{
    amount_add(&caller->amount, &node->amount);
    if (node->largest > caller->largest) {
        caller->largest = node->largest;
        caller->sample = node->sample;
    }
}

/* Joins a node that is too small, and everything below it, with the box of its caller. */
static bool close_node(struct flame_tree *tree)
{
    uint32_t level = --tree->open_count;
    struct flame_node *node = &tree->nodes[tree->open[level]], *box = &tree->smaller[level];

    if (level > 0)
        add_to_caller(&tree->nodes[tree->open[level - 1]], node);
    if (flame_weight(&node->amount) < tree->least && level > 0) {
        struct flame_node *outer = &tree->smaller[level - 1];
        outer->joined++;
        amount_add(&outer->amount, &node->amount);
        tree->count = tree->open[level];
        return true;
    }
    if (!box->joined)
        return true;
    node = add_node(tree, FLAME_SMALLER, level + 1);
    if (!node)
        return false;
    node->joined = box->joined;
    node->amount = box->amount;
    return true;
}

static bool open_node(struct flame_tree *tree, uint32_t name)
{
    uint32_t level = tree->open_count;

    if (!add_node(tree, name, level))
        return false;
    tree->open[level] = (uint32_t)tree->count - 1;
    tree->smaller[level] = (struct flame_node){.name = FLAME_SMALLER};
    tree->open_count++;
    return true;
}

static bool next_place(const struct samples *samples, uint32_t sample, struct names_walk *at,
                       struct flame_place *place)
{
    const struct location *location;
    const struct location_line *line;

    if (!stacks_next(samples, &samples->list[sample], at, &location, &line))
        return false;
    *place = (struct flame_place){line->function, line->line, location->mapping};
    return true;
}

struct flame_place flame_place(const struct flame_tree *tree, const struct samples *samples,
                               const struct flame_node *node, struct flame_cursor *cursor)
{
    if (cursor->depth == 0 || cursor->sample != node->sample || cursor->depth > node->depth)
        *cursor =
            (struct flame_cursor){.sample = node->sample, .at = {.from_leaf = tree->is_inverted}};
    while (cursor->depth < node->depth &&
           next_place(samples, cursor->sample, &cursor->at, &cursor->place))
        cursor->depth++;
    return cursor->place;
}

static bool same_call_place(const struct samples *samples, const struct flame_place *a,
                            const struct flame_place *b)
{
    const struct location_mapping *mappings = samples->locations.mappings;

    if (a->function != b->function || a->line != b->line)
        return false;
    return a->mapping == b->mapping ||
           (a->mapping != TABLE_NONE && b->mapping != TABLE_NONE &&
            strcmp(mappings[a->mapping].path, mappings[b->mapping].path) == 0);
}

/*
 * Marks the nodes at which this stack and the previous one call at different
 * places. Comparing neighbours is enough: if no two differ, all are the same.
 */
static void mark_places(struct flame_tree *tree, const struct samples *samples,
                        const struct named_stack *last, const struct named_stack *stack,
                        uint32_t common)
{
    struct names_walk at = {.from_leaf = tree->is_inverted}, other = at;
    struct flame_place here, there;

    while (common && tree->nodes[tree->open[common]].has_places)
        common--;
    for (uint32_t i = 0; i < common; i++) {
        if (!next_place(samples, last->sample, &other, &there) ||
            !next_place(samples, stack->sample, &at, &here))
            return;
        if (!same_call_place(samples, &here, &there))
            tree->nodes[tree->open[i + 1]].has_places = true;
    }
}

/*
 * Goes from the previous stack to this one: back to their common part, then on
 * to a depth. Level 0 is the root. A node gets the amounts of its callees when
 * they end.
 */
static bool enter_stack(struct flame_tree *tree, const struct stacks *stacks,
                        const struct named_stack *stack, uint32_t common, uint32_t depth)
{
    struct flame_node leaf = {
        .sample = stack->sample, .amount = stack->amount, .largest = flame_weight(&stack->amount)};

    while (tree->open_count > common + 1)
        if (!close_node(tree))
            return false;
    for (uint32_t i = common; i < depth; i++)
        if (!(tree->is_full = tree->count - tree->open_count >= FLAME_NODES_MAX) &&
            !open_node(tree, stacks->names[stack->first + i]))
            return false;
    add_to_caller(&tree->nodes[tree->open[tree->open_count - 1]], &leaf);
    return true;
}

/* Returns the next stack that holds something; NULL: none. */
static const struct named_stack *next_stack(const struct stacks *stacks, size_t *index)
{
    while (*index < stacks->count)
        if (flame_weight(&stacks->list[(*index)++].amount) > 0)
            return &stacks->list[*index - 1];
    return NULL;
}

/*
 * Adds all stacks. The calls of a small stack beyond those that it shares with
 * its neighbours would be joined with their caller: only the first is entered.
 */
static bool enter_stacks(struct flame_tree *tree, const struct samples *samples,
                         const struct stacks *stacks)
{
    size_t index = 0;
    const struct named_stack *last = NULL, *stack = next_stack(stacks, &index), *next;
    uint32_t common = 0, common_next, depth;

    for (; stack && !tree->is_full; last = stack, stack = next, common = common_next) {
        next = next_stack(stacks, &index);
        common_next = next ? stacks_common(stacks, stack, next) : 0;
        depth = (common > common_next ? common : common_next) + 1;
        if (depth > stack->depth || flame_weight(&stack->amount) >= tree->least)
            depth = stack->depth;
        if (last)
            mark_places(tree, samples, last, stack, common);
        if (!enter_stack(tree, stacks, stack, common, depth))
            return false;
    }
    return true;
}

bool flame_tree_grow(struct flame_tree *tree, const struct samples *samples,
                     const struct stacks *stacks, double least, bool is_inverted)
{
    tree->count = tree->open_count = 0;
    tree->least = least;
    tree->is_inverted = is_inverted;
    tree->is_full = false;
    if (!open_node(tree, FLAME_SMALLER) || !enter_stacks(tree, samples, stacks))
        return false;
    while (tree->open_count)
        if (!close_node(tree))
            return false;
    return true;
}

bool flame_tree_init(struct flame_tree *tree, const struct stacks *stacks)
{
    size_t deepest = 0;

    memset(tree, 0, sizeof *tree);
    for (size_t i = 0; i < stacks->count; i++)
        if (stacks->list[i].depth > deepest)
            deepest = stacks->list[i].depth;
    tree->open = reallocarray(NULL, deepest + 1, sizeof *tree->open);
    tree->smaller = reallocarray(NULL, deepest + 1, sizeof *tree->smaller);
    return tree->open && tree->smaller;
}

void flame_tree_free(struct flame_tree *tree)
{
    free(tree->nodes);
    free(tree->open);
    free(tree->smaller);
    memset(tree, 0, sizeof *tree);
}
