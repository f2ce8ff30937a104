#include "profile/views/call_tree.h"
#include "base/list.h"
#include "profile/views/call_keys.h"

#include <math.h>
#include <string.h>

/* A stack on its way through the tree: how much of it lies above the present node. */
struct walker {
    uint32_t sample;
    uint32_t calls; /* of the sample that are done */
    uint32_t lines; /* of the next call's location that are done */
};

/* The calls of one name below the node that is being divided. */
struct branch {
    uint32_t key;
    uint32_t function, count; /* count: of walkers */
    uint32_t to;              /* its first walker, then the place for the next one */
    unsigned line;
    bool kept;
    struct amount amount, objects;
    double grown, shrunk;
    double largest; /* of those that are joined: the largest weight */
};

/* The walkers of each node, by its number. */
struct range {
    uint32_t first, count;
};

struct grower {
    const struct samples *samples;
    const struct display *display;
    struct call_tree *tree;
    struct call_keys keys;
    uint32_t *slots; /* for each key, its branch below the present node */
    struct walker *walkers, *scratch;
    uint32_t *branch_of; /* for each walker of the present node */
    struct branch *branches;
    size_t branch_count, branch_capacity;
    struct range *ranges;
    size_t range_capacity;
    size_t depth_limit;
};

/* Calls beyond NODES_MAX are joined with the small ones, whatever they weigh. */
enum { NO_BRANCH = UINT32_MAX, NODES_MAX = 512 << 10 };

/* Finds the next call of a stack. TABLE_NONE: there is none. */
static uint32_t next_line_of(const struct grower *grower, struct walker *walker)
{
    const struct samples *samples = grower->samples;
    const struct sample *sample = &samples->list[walker->sample];
    bool inverted = grower->display->inverted;

    while (walker->calls < sample->depth) {
        uint32_t at = inverted ? walker->calls : sample->depth - 1 - walker->calls;
        const struct location *location =
            &samples->locations.list[samples->calls[sample->first + at]];
        if (walker->lines < location->count)
            return location->first +
                   (inverted ? walker->lines : location->count - 1 - walker->lines);
        walker->calls++;
        walker->lines = 0;
    }
    return TABLE_NONE;
}

static void branch_add(const struct grower *grower, struct branch *branch,
                       const struct sample *sample)
{
    const struct amount *amount = &sample->values[grower->display->value];
    double growth = (double)amount_growth(amount);

    amount_add(&branch->amount, amount);
    amount_add(&branch->objects, &sample->values[display_objects(grower->display)]);
    *(growth > 0 ? &branch->grown : &branch->shrunk) += growth;
    branch->count++;
}

static double branch_weight(const struct branch *branch)
{
    return branch->grown > -branch->shrunk ? branch->grown : -branch->shrunk;
}

/* Returns the branch of a call; NULL: out of memory. */
static struct branch *find_branch(struct grower *grower, uint32_t at)
{
    const struct location_line *line = &grower->samples->locations.lines[at];
    uint32_t key = grower->keys.of_line[at], *slot = &grower->slots[key];
    struct branch *branch;

    if (*slot == NO_BRANCH) {
        if (!LIST_GROW(grower->branches, grower->branch_capacity, grower->branch_count))
            return NULL;
        *slot = (uint32_t)grower->branch_count;
        grower->branches[grower->branch_count++] =
            (struct branch){.key = key, .function = line->function, .line = line->line};
    }
    branch = &grower->branches[*slot];
    if (branch->line != line->line)
        branch->line = 0;
    return branch;
}

/* Divides the walkers of a node by their next calls; those without one are *self. */
static bool divide_walkers(struct grower *grower, const struct range *range, struct branch *self)
{
    grower->branch_count = 0;
    for (uint32_t i = 0; i < range->count; i++) {
        struct walker *walker = &grower->walkers[range->first + i];
        uint32_t at = next_line_of(grower, walker);
        struct branch *branch = at == TABLE_NONE ? self : find_branch(grower, at);
        if (!branch)
            return false;
        branch_add(grower, branch, &grower->samples->list[walker->sample]);
        grower->branch_of[i] = at == TABLE_NONE ? NO_BRANCH : (uint32_t)(branch - grower->branches);
    }
    for (size_t i = 0; i < grower->branch_count; i++)
        grower->slots[grower->branches[i].key] = NO_BRANCH;
    return true;
}

/* Moves the walkers of the branches that are kept together, one call further. */
static void gather_walkers(struct grower *grower, const struct range *range)
{
    uint32_t used = 0;

    for (size_t i = 0; i < grower->branch_count; i++) {
        struct branch *branch = &grower->branches[i];
        branch->to = used;
        used += branch->kept ? branch->count : 0;
    }
    for (uint32_t i = 0; i < range->count; i++) {
        struct walker walker = grower->walkers[range->first + i];
        uint32_t number = grower->branch_of[i];
        if (number == NO_BRANCH || !grower->branches[number].kept)
            continue;
        walker.lines++;
        grower->scratch[grower->branches[number].to++] = walker;
    }
    memcpy(&grower->walkers[range->first], grower->scratch, used * sizeof *grower->walkers);
}

static struct call_node *append_node(struct grower *grower, uint32_t parent,
                                     const struct branch *branch, struct range range)
{
    struct call_tree *tree = grower->tree;
    struct call_node *node;

    if (tree->count >= UINT32_MAX || !LIST_GROW(tree->nodes, tree->capacity, tree->count) ||
        !LIST_GROW(grower->ranges, grower->range_capacity, tree->count))
        return NULL;
    node = &tree->nodes[tree->count];
    *node = (struct call_node){.function = branch->function,
                               .line = branch->line,
                               .depth = tree->count ? tree->nodes[parent].depth + 1 : 0,
                               .amount = branch->amount,
                               .objects = branch->objects,
                               .weight = branch_weight(branch)};
    grower->ranges[tree->count++] = range;
    tree->nodes[parent].count += node != &tree->nodes[0];
    return node;
}

/* Adds the branches that are large enough as children; *smaller receives the others. */
static bool append_children(struct grower *grower, uint32_t parent, struct range range,
                            struct branch *smaller, uint32_t *calls)
{
    for (size_t i = 0; i < grower->branch_count; i++) {
        const struct branch *branch = &grower->branches[i];
        if (branch->kept) {
            struct range own = {range.first + branch->to - branch->count, branch->count};
            if (!append_node(grower, parent, branch, own))
                return false;
            continue;
        }
        if (branch_weight(branch) == 0)
            continue; /* holds nothing, or has not changed */
        amount_add(&smaller->amount, &branch->amount);
        amount_add(&smaller->objects, &branch->objects);
        smaller->grown += branch->grown;
        smaller->shrunk += branch->shrunk;
        smaller->count += branch->count;
        smaller->largest = fmax(smaller->largest, branch_weight(branch));
        ++*calls;
    }
    return true;
}

/* Adds the parts of a node that are not calls below it: small ones, and its own. */
static bool append_rest(struct grower *grower, uint32_t parent, struct branch *self,
                        struct branch *smaller, uint32_t calls)
{
    const struct range none = {0, 0};
    struct call_node *node;

    self->function = CALL_SELF;
    smaller->function = CALL_SMALLER;
    if (self->count && grower->branch_count && !append_node(grower, parent, self, none))
        return false;
    if (!calls)
        return true;
    node = append_node(grower, parent, smaller, none);
    if (!node)
        return false;
    node->calls = calls;
    node->largest = smaller->largest;
    return true;
}

static int by_call(const struct grower *grower, uint32_t x, uint32_t y, unsigned x_line,
                   unsigned y_line)
{
    const struct locations *locations = &grower->samples->locations;
    int order;

    if (x >= CALL_SMALLER || y >= CALL_SMALLER)
        return x < y ? -1 : x > y;
    order = strcmp(locations->groups[locations->functions[x].group],
                   locations->groups[locations->functions[y].group]);
    return order ? order : x_line < y_line ? -1 : x_line > y_line;
}

/* The largest first, in a comparison what has grown most; small calls last. */
static int by_amount(const void *a, const void *b, void *data)
{
    const struct call_node *x = a, *y = b;
    int64_t of_x = amount_growth(&x->amount), of_y = amount_growth(&y->amount);

    if ((x->function == CALL_SMALLER) != (y->function == CALL_SMALLER))
        return x->function == CALL_SMALLER ? 1 : -1;
    if (of_x != of_y)
        return of_x < of_y ? 1 : -1;
    return by_call(data, x->function, y->function, x->line, y->line);
}

struct ranked {
    struct call_node node;
    struct range range;
};

static int by_rank(const void *a, const void *b, void *data)
{
    return by_amount(&((const struct ranked *)a)->node, &((const struct ranked *)b)->node, data);
}

/* Sorts the children of a node, and their walkers with them. */
static bool sort_children(struct grower *grower, const struct call_node *parent)
{
    AUTO_FREE struct ranked *list = reallocarray(NULL, parent->count + 1u, sizeof *list);

    for (uint32_t i = 0; list && i < parent->count; i++)
        list[i] = (struct ranked){grower->tree->nodes[parent->first + i],
                                  grower->ranges[parent->first + i]};
    if (!list)
        return false;
    qsort_r(list, parent->count, sizeof *list, by_rank, grower);
    for (uint32_t i = 0; i < parent->count; i++) {
        grower->tree->nodes[parent->first + i] = list[i].node;
        grower->ranges[parent->first + i] = list[i].range;
    }
    return true;
}

static bool grow_children(struct grower *grower, uint32_t parent)
{
    struct range range = grower->ranges[parent];
    struct branch self = {0}, smaller = {0};
    size_t nodes = grower->tree->count;
    uint32_t calls = 0;

    grower->tree->nodes[parent].first = (uint32_t)grower->tree->count;
    if (range.count == 0)
        return true;
    if (!divide_walkers(grower, &range, &self))
        return false;
    if (grower->tree->nodes[parent].depth >= grower->depth_limit) {
        grower->tree->nodes[parent].cut = grower->branch_count > 0;
        return true;
    }
    for (size_t i = 0; i < grower->branch_count; i++) {
        double weight = branch_weight(&grower->branches[i]);
        grower->branches[i].kept = weight > 0 && weight >= grower->tree->least && nodes < NODES_MAX;
        nodes += grower->branches[i].kept;
    }
    gather_walkers(grower, &range);
    return append_children(grower, parent, range, &smaller, &calls) &&
           append_rest(grower, parent, &self, &smaller, calls) &&
           sort_children(grower, &grower->tree->nodes[parent]);
}

static bool plant_root(struct grower *grower)
{
    struct samples const *samples = grower->samples;
    struct branch root = {.function = CALL_SELF};

    for (size_t i = 0; i < samples->count; i++) {
        grower->walkers[i] = (struct walker){.sample = (uint32_t)i};
        branch_add(grower, &root, &samples->list[i]);
    }
    grower->tree->least = branch_weight(&root) * grower->display->least;
    return append_node(grower, 0, &root, (struct range){0, (uint32_t)samples->count}) != NULL;
}

const struct call_node *call_tree_only_child(const struct call_tree *tree,
                                             const struct call_node *node)
{
    const struct call_node *only = NULL;
    double rest = 0;

    for (uint32_t i = 0; i < node->count; i++) {
        const struct call_node *child = &tree->nodes[node->first + i];
        if (!call_node_is_call(child))
            rest += child->weight;
        else if (only)
            return NULL;
        else
            only = child;
    }
    return rest == 0 || rest < tree->least ? only : NULL;
}

/* ---- at most so many calls ---- */

static int by_weight(const void *a, const void *b, void *data)
{
    const struct call_node *nodes = data;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (nodes[x].weight != nodes[y].weight)
        return nodes[x].weight < nodes[y].weight ? 1 : -1;
    return x < y ? -1 : x > y; /* a parent comes before its children */
}

/*
 * Returns a mark for each node: it is one of the `most` largest calls, or continues one, so that a
 * deep chain of calls hides no other branch. NULL: out of memory.
 */
static bool *mark_largest(const struct call_tree *tree, size_t most)
{
    AUTO_FREE uint32_t *order = reallocarray(NULL, tree->count, sizeof *order);
    AUTO_FREE uint32_t *continued = calloc(tree->count, sizeof *continued);
    bool *marks = calloc(tree->count, 1);
    size_t marked = 0;

    for (size_t i = 0; order && i < tree->count; i++)
        order[i] = (uint32_t)i;
    if (!order || !continued || !marks) {
        free(marks);
        return NULL;
    }
    /* The call that each node alone continues; 0: none. The root's only child begins a line. */
    for (size_t i = 1; i < tree->count; i++) {
        const struct call_node *only = call_tree_only_child(tree, &tree->nodes[i]);
        if (only)
            continued[only - tree->nodes] = (uint32_t)i;
    }
    qsort_r(order, tree->count, sizeof *order, by_weight, tree->nodes);
    for (size_t i = 0; i < tree->count; i++) {
        uint32_t number = order[i];
        if (!number || !call_node_is_call(&tree->nodes[number]))
            continue;
        marks[number] = continued[number] ? marks[continued[number]] : marked < most;
        marked += marks[number] && !continued[number];
    }
    return marks;
}

static void join_small(struct call_node *smaller, const struct call_node *node)
{
    bool joined = node->function == CALL_SMALLER;

    smaller->calls += joined ? node->calls : 1;
    smaller->largest = fmax(smaller->largest, joined ? node->largest : node->weight);
    smaller->function = CALL_SMALLER;
    smaller->weight += node->weight;
    amount_add(&smaller->amount, &node->amount);
    amount_add(&smaller->objects, &node->objects);
}

/* Joins the children of a node that have no mark. */
static void drop_children(struct call_tree *tree, struct call_node *parent, const bool *marks)
{
    struct call_node smaller = {.depth = parent->depth + 1};
    uint32_t kept = 0;

    for (uint32_t i = 0; i < parent->count; i++) {
        const struct call_node *node = &tree->nodes[parent->first + i];
        if (node->function == CALL_SELF || marks[parent->first + i])
            tree->nodes[parent->first + kept++] = *node;
        else
            join_small(&smaller, node);
    }
    if (smaller.calls) /* at least one child was left out: there is a place */
        tree->nodes[parent->first + kept++] = smaller;
    parent->count = kept;
}

static bool allocate_grower(struct grower *grower)
{
    size_t count = grower->samples->count + 1;

    grower->walkers = reallocarray(NULL, count, sizeof *grower->walkers);
    grower->scratch = reallocarray(NULL, count, sizeof *grower->scratch);
    grower->branch_of = reallocarray(NULL, count, sizeof *grower->branch_of);
    grower->slots = reallocarray(NULL, grower->keys.count + 1, sizeof *grower->slots);
    if (!grower->walkers || !grower->scratch || !grower->branch_of || !grower->slots)
        return false;
    memset(grower->slots, 0xff, (grower->keys.count + 1) * sizeof *grower->slots);
    return true;
}

bool call_tree_make(struct call_tree *tree, const struct samples *samples,
                    const struct display *display)
{
    struct grower grower = {.samples = samples,
                            .display = display,
                            .tree = tree,
                            .depth_limit = display->depth ? display->depth : DISPLAY_DEPTH_ALL};
    bool good;

    memset(tree, 0, sizeof *tree);
    good = call_keys_make(&grower.keys, &samples->locations,
                          display->lines ? KEY_LINE : KEY_FUNCTION) &&
           allocate_grower(&grower) && plant_root(&grower);
    for (size_t i = 0; good && i < tree->count; i++)
        good = grow_children(&grower, (uint32_t)i);
    if (good && display->rows) {
        AUTO_FREE bool *marks = mark_largest(tree, display->rows);
        for (size_t i = marks ? tree->count : 0; i-- > 0;) /* children before their parent */
            drop_children(tree, &tree->nodes[i], marks);
        good = marks != NULL;
    }
    call_keys_free(&grower.keys);
    free(grower.slots);
    free(grower.walkers);
    free(grower.scratch);
    free(grower.branch_of);
    free(grower.branches);
    free(grower.ranges);
    return good;
}

void call_tree_free(struct call_tree *tree)
{
    free(tree->nodes);
    memset(tree, 0, sizeof *tree);
}
