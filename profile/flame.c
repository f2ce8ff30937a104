#include "profile/flame.h"
#include "base/json.h"
#include "base/list.h"

#include <math.h>
#include <string.h>

/* Maximum characters of the data: browsers are quick with it, and mail accepts it. */
enum { DATA_LIMIT = 1500 << 10 };

struct flame_node {
    uint32_t name; /* a group, or NAME_SMALLER */
    uint32_t depth;
    uint32_t joined; /* of NAME_SMALLER: the number of calls that it stands for */
    struct amount amount;
};

enum { NAME_SMALLER = UINT32_MAX };

/* The tree in the order of the stacks: a node, then everything below it. */
struct flame {
    struct flame_node *nodes;
    size_t count, capacity;
    uint32_t *open; /* the nodes from the root to the present position */
    uint32_t open_count;
    struct flame_node *smaller; /* for each open node, the joined small nodes below it */
    double least;
};

static double node_weight(const struct amount *amount)
{
    double now = fabs((double)amount->now), base = fabs((double)amount->base);
    return now > base ? now : base;
}

static struct flame_node *add_node(struct flame *flame, uint32_t name, uint32_t depth)
{
    if (!LIST_GROW(flame->nodes, flame->capacity, flame->count) || flame->count >= UINT32_MAX)
        return NULL;
    flame->nodes[flame->count] = (struct flame_node){.name = name, .depth = depth};
    return &flame->nodes[flame->count++];
}

/* Joins a node that is too small, and everything below it, with the box of its caller. */
static bool close_node(struct flame *flame)
{
    uint32_t level = --flame->open_count;
    struct flame_node *node = &flame->nodes[flame->open[level]], *box = &flame->smaller[level];

    if (node_weight(&node->amount) < flame->least && level > 0) {
        struct flame_node *outer = &flame->smaller[level - 1];
        outer->joined++;
        amount_add(&outer->amount, &node->amount);
        flame->count = flame->open[level];
        return true;
    }
    if (!box->joined)
        return true;
    node = add_node(flame, NAME_SMALLER, level + 1);
    if (!node)
        return false;
    node->joined = box->joined;
    node->amount = box->amount;
    return true;
}

static bool open_node(struct flame *flame, uint32_t name)
{
    uint32_t level = flame->open_count;

    if (!add_node(flame, name, level))
        return false;
    flame->open[level] = (uint32_t)flame->count - 1;
    flame->smaller[level] = (struct flame_node){.name = NAME_SMALLER};
    flame->open_count++;
    return true;
}

/*
 * Goes from the previous stack to this one: back to their common part, then on.
 * Level 0 is the root.
 */
static bool enter_stack(struct flame *flame, const struct stacks *stacks,
                        const struct named_stack *stack, uint32_t common)
{
    while (flame->open_count > common + 1)
        if (!close_node(flame))
            return false;
    for (uint32_t i = common; i < stack->depth; i++)
        if (!open_node(flame, stacks->names[stack->first + i]))
            return false;
    for (uint32_t i = 0; i < flame->open_count; i++)
        amount_add(&flame->nodes[flame->open[i]].amount, &stack->amount);
    return true;
}

static bool grow_tree(struct flame *flame, const struct stacks *stacks)
{
    const struct named_stack *last = NULL;

    flame->count = flame->open_count = 0;
    if (!open_node(flame, NAME_SMALLER))
        return false;
    for (size_t i = 0; i < stacks->count; i++) {
        const struct named_stack *stack = &stacks->list[i];
        uint32_t common = last ? stacks_common(stacks, last, stack) : 0;
        if (node_weight(&stack->amount) == 0)
            continue;
        if (!enter_stack(flame, stacks, stack, common))
            return false;
        last = stack;
    }
    while (flame->open_count)
        if (!close_node(flame))
            return false;
    return true;
}

static bool allocate_nodes(struct flame *flame, const struct stacks *stacks)
{
    uint32_t deepest = 0;

    for (size_t i = 0; i < stacks->count; i++)
        if (stacks->list[i].depth > deepest)
            deepest = stacks->list[i].depth;
    flame->open = reallocarray(NULL, (size_t)deepest + 1, sizeof *flame->open);
    flame->smaller = reallocarray(NULL, (size_t)deepest + 1, sizeof *flame->smaller);
    return flame->open && flame->smaller;
}

/* Writes the names in the tree, numbered from 1 in the order of writing; 0: joined calls. */
static void write_names(const struct flame *flame, const struct locations *locations,
                        uint32_t *numbers, struct json *json)
{
    uint32_t count = 0;

    memset(numbers, 0, locations->group_count * sizeof *numbers);
    json_list_begin(json, "names");
    json_item_text(json, "");
    for (size_t i = 0; i < flame->count; i++) {
        uint32_t name = flame->nodes[i].name;
        if (name == NAME_SMALLER || numbers[name])
            continue;
        numbers[name] = ++count;
        json_item_text(json, locations->groups[name]);
    }
    json_list_end(json);
}

/*
 * Writes four or six numbers per node: depth, name, value, joined calls; for a
 * comparison value now, value before and the error.
 */
static void write_nodes(const struct flame *flame, const uint32_t *numbers, bool compares,
                        struct json *json)
{
    json_list_begin(json, "nodes");
    for (size_t i = 0; i < flame->count; i++) {
        const struct flame_node *node = &flame->nodes[i];
        json_item_signed(json, node->depth);
        json_item_signed(json, node->name == NAME_SMALLER ? 0 : numbers[node->name]);
        json_item_signed(json, node->amount.now);
        json_item_signed(json, node->joined);
        if (compares) {
            json_item_signed(json, node->amount.base);
            json_item_rounded(json, amount_error(&node->amount));
        }
    }
    json_list_end(json);
}

static bool write_data(const struct flame *flame, const struct samples *samples,
                       const struct display *display, FILE *out)
{
    AUTO_FREE uint32_t *numbers = calloc(samples->locations.group_count + 1, sizeof *numbers);
    struct json json;

    if (!numbers)
        return false;
    json_begin(&json, out);
    json.compact = true;
    json_text(&json, "title", display->title ? display->title : "heap profile");
    json_text(&json, "value", value_name(display->value));
    json_bool(&json, "bytes", display_is_bytes(display));
    json_bool(&json, "compares", samples->compares);
    json_number(&json, "period", samples->period);
    json_rounded(&json, "least", flame->least);
    write_names(flame, &samples->locations, numbers, &json);
    write_nodes(flame, numbers, samples->compares, &json);
    json_end(&json);
    return true;
}

/* Returns the data as text; NULL: out of memory. */
static char *make_data(const struct flame *flame, const struct samples *samples,
                       const struct display *display, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    bool good = out && write_data(flame, samples, display, out);

    if (out && fclose(out) != 0)
        good = false;
    if (good)
        return text;
    free(text);
    return NULL;
}

/* Reduces the detail until the data are small enough; a root and one box always are. */
static char *fit_data(struct flame *flame, const struct stacks *stacks,
                      const struct samples *samples, const struct display *display, size_t *size)
{
    char *text;

    for (;; flame->least = flame->least * 2 + 1) {
        if (!grow_tree(flame, stacks))
            return NULL;
        text = make_data(flame, samples, display, size);
        if (!text || *size <= DATA_LIMIT || flame->count <= 2)
            return text;
        free(text);
    }
}

bool flame_write(const struct samples *samples, const struct display *display, FILE *out)
{
    struct amount total = samples_total(samples, display->value);
    struct flame flame = {.least = node_weight(&total) * display->least};
    struct stacks stacks;
    char *data = NULL;
    size_t size = 0;

    if (!stacks_make(&stacks, samples, display->value))
        return false;
    if (allocate_nodes(&flame, &stacks))
        data = fit_data(&flame, &stacks, samples, display, &size);
    if (data) {
        fwrite(flame_page, 1, flame_page_size, out);
        fwrite(data, 1, size, out);
        fputs("</script>\n</html>\n", out);
    }
    free(data);
    free(flame.nodes);
    free(flame.open);
    free(flame.smaller);
    stacks_free(&stacks);
    return data != NULL;
}
