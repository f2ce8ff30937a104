#include "profile/views/flame.h"
#include "base/json.h"
#include "base/list.h"
#include "base/text.h"
#include "base/util.h"
#include "profile/views/growth.h"
#include "profile/views/stacks.h"
#include "profile/views/top.h"

#include <math.h>
#include <string.h>

/* Stacks as the tree of boxes of a flame graph; small boxes are joined. */

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

/* A position in a stack: a deep one is walked once, not once for each of its nodes. */
struct flame_cursor {
    uint32_t sample, depth;
    struct names_walk at;
    struct flame_place place;
};

/* Returns how much an amount counts in a comparison: the larger of the two values. */
static double flame_weight(const struct amount *amount)
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

/*
 * Returns the place in the largest stack of a node, which must be a call. The
 * cursor belongs to the tree; start with zeros.
 */
static struct flame_place flame_place(const struct flame_tree *tree, const struct samples *samples,
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
        /*
         * Goes from the previous stack to this one: back to their common part, then on
         * to a depth. Level 0 is the root. A node gets the amounts of its callees when
         * they end.
         */
        struct flame_node leaf = {.sample = stack->sample,
                                  .amount = stack->amount,
                                  .largest = flame_weight(&stack->amount)};
        while (tree->open_count > common + 1)
            if (!close_node(tree))
                return false;
        for (uint32_t i = common; i < depth; i++)
            if (!(tree->is_full = tree->count - tree->open_count >= FLAME_NODES_MAX) &&
                !open_node(tree, stacks->names[stack->first + i]))
                return false;
        add_to_caller(&tree->nodes[tree->open[tree->open_count - 1]], &leaf);
    }
    return true;
}

static void flame_tree_free(struct flame_tree *tree)
{
    free(tree->nodes);
    free(tree->open);
    free(tree->smaller);
    memset(tree, 0, sizeof *tree);
}

/* Maximum characters of the data: browsers are quick with it, and mail accepts it. */
enum { DATA_LIMIT = 1500 << 10, CHECKED_NODES = 1024 };
/* The part of FLAME_NODES_MAX that may fit into the data. */
#define FULL_SHARE 0.25

/* A box may stand for many calls; these are the numbers of texts, except line and kind. */
struct flame_call {
    uint32_t name, full_name, file, line, module, kind;
};

/* What the boxes refer to, numbered in the order of its first use. */
struct flame_data {
    const char **texts;
    struct flame_call *calls;
    size_t text_count, text_capacity, call_count, call_capacity;
    struct table text_table, call_table;
    const struct samples *samples;
    struct flame_cursor cursor;
};

static bool same_data_text(const void *ctx, uint32_t place, const void *key)
{
    const struct flame_data *data = ctx;
    return strcmp(data->texts[place], key) == 0;
}

static uint32_t find_data_text(struct flame_data *data, const char *text)
{
    uint64_t hash = table_hash_bytes(&data->text_table, text, strlen(text));
    uint32_t place;

    if (!LIST_GROW(data->texts, data->text_capacity, data->text_count))
        return TABLE_NONE;
    place =
        table_put(&data->text_table, hash, same_data_text, data, text, (uint32_t)data->text_count);
    if (place == data->text_count)
        data->texts[data->text_count++] = text;
    return place;
}

static bool same_data_call(const void *ctx, uint32_t place, const void *key)
{
    const struct flame_data *data = ctx;
    return memcmp(&data->calls[place], key, sizeof *data->calls) == 0;
}

static uint32_t put_data_call(struct flame_data *data, const struct flame_call *call)
{
    uint64_t hash = table_hash_bytes(&data->call_table, call, sizeof *call);
    uint32_t place;

    if (!LIST_GROW(data->calls, data->call_capacity, data->call_count))
        return TABLE_NONE;
    place =
        table_put(&data->call_table, hash, same_data_call, data, call, (uint32_t)data->call_count);
    if (place == data->call_count)
        data->calls[data->call_count++] = *call;
    return place;
}

/* Returns the number of the call of a box, or TABLE_NONE: out of memory. */
static uint32_t find_data_call(struct flame_data *data, const struct flame_tree *tree,
                               const struct flame_node *node)
{
    const struct locations *locations = &data->samples->locations;
    struct flame_place place = flame_place(tree, data->samples, node, &data->cursor);
    const struct function *function = &locations->functions[place.function];
    const char *module = place.mapping == TABLE_NONE ? "" : locations->mappings[place.mapping].path;
    struct flame_call call = {.name = find_data_text(data, locations->groups[node->name]),
                              .full_name = find_data_text(data, function->name),
                              .file = find_data_text(data, function->file),
                              .line = place.line,
                              .module = find_data_text(data, module),
                              .kind = (uint32_t)function->kind};

    if (call.name == TABLE_NONE || call.full_name == TABLE_NONE || call.file == TABLE_NONE ||
        call.module == TABLE_NONE)
        return TABLE_NONE;
    return put_data_call(data, &call);
}

/*
 * Writes what distinguishes a box from the one before it and from its caller, so
 * that most numbers are small: the levels back to its caller; its call, times
 * two, plus one if it has other places; how much less than its caller it holds,
 * also before and in the error if the profile compares. A joined box has the call
 * 0, and their number in the end.
 */
static bool write_flame_node(struct flame_data *data, struct flame_tree *tree, size_t index,
                             struct json *json)
{
    static const struct amount none;
    const struct flame_node *node = &tree->nodes[index];
    const struct amount *own = &node->amount,
                        *outer =
                            node->depth ? &tree->nodes[tree->open[node->depth - 1]].amount : &none;
    uint32_t call = 0, before = index ? tree->nodes[index - 1].depth + 1 : 0;

    if (node->name != FLAME_SMALLER && (call = find_data_call(data, tree, node)) == TABLE_NONE)
        return false;
    tree->open[node->depth] = (uint32_t)index;
    json_item_signed(json, before - node->depth);
    json_item_signed(json, (int64_t)call * 2 + node->has_places);
    json_item_signed(json, outer->now - own->now);
    if (data->samples->compares) {
        json_item_signed(json, outer->base - own->base);
        json_item_rounded(json,
                          samples_error(data->samples, outer) - samples_error(data->samples, own));
    }
    if (call == 0)
        json_item_signed(json, node->joined);
    return true;
}

struct flame {
    const struct samples *samples;
    const struct display *display;
    struct stacks stacks;
    struct flame_tree tree;
    double least;
    double more; /* if the data are too large: the least that may make them small enough */
};

static int heavier_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Returns the least amount that leaves this share of the nodes; NAN: out of memory. */
static double least_of_share(const struct flame_tree *tree, double share)
{
    AUTO_FREE double *weights = reallocarray(NULL, tree->count, sizeof *weights);

    if (!weights)
        return NAN;
    for (size_t i = 0; i < tree->count; i++)
        weights[i] = flame_weight(&tree->nodes[i].amount);
    qsort(weights, tree->count, sizeof *weights, heavier_first);
    return weights[(size_t)(share * (double)(tree->count - 1))];
}

/*
 * Checks the size of the data so far, of which the tree's part began at `start`
 * and has `done` nodes. If they are too large, estimates what is to be left out.
 */
static bool is_too_large(struct flame *flame, const struct json *json, long start, size_t done)
{
    const struct flame_tree *tree = &flame->tree;
    double size = (double)ftell(json->out), whole;

    if (size <= DATA_LIMIT)
        return false;
    whole = (double)start + (size - (double)start) * (double)tree->count / (double)done;
    flame->more = least_of_share(tree, 0.9 * DATA_LIMIT / (tree->is_inverted ? whole : 2 * whole));
    return true;
}

static bool write_flame_tree(struct flame *flame, struct flame_data *data, const char *name,
                             struct json *json)
{
    long start = ftell(json->out);

    data->cursor = (struct flame_cursor){0};
    json_list_begin(json, name);
    for (size_t i = 0; i < flame->tree.count; i++) {
        if (!write_flame_node(data, &flame->tree, i, json))
            return false;
        if ((i + 1) % CHECKED_NODES == 0 && is_too_large(flame, json, start, i + 1))
            break;
    }
    json_list_end(json);
    return true;
}

static void write_flame_calls(const struct flame_data *data, struct json *json)
{
    json_list_begin(json, "texts");
    for (size_t i = 0; i < data->text_count; i++) {
        /* The page shows them, so an escape would not do. */
        AUTO_FREE char *clean = text_copy_clean(data->texts[i], "");
        json_item_text(json, clean ? clean : "?");
    }
    json_list_end(json);
    json_list_begin(json, "calls");
    for (size_t i = 0; i < data->call_count; i++) {
        const struct flame_call *call = &data->calls[i];
        const uint32_t numbers[] = {call->name, call->full_name, call->file,
                                    call->line, call->module,    call->kind};
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++)
            json_item_signed(json, numbers[j]);
    }
    json_list_end(json);
}

enum { SUM_TEXT = 5 * DISPLAY_NUMBER_SIZE + 64 + TOP_FILTERED_SIZE };

/*
 * What the page is of: "284 MiB (samples)", "growth +93 MiB (samples), 190 MiB before, 283 MiB
 * now". Samples and pages that were touched first are not called memory in use: they are a part of
 * it.
 */
static const char *sum_text(const struct samples *samples, const struct display *display,
                            char out[SUM_TEXT])
{
    static const char *const kinds[] = {[VALUE_BYTES] = "",
                                        [VALUE_OBJECTS] = " objects",
                                        [VALUE_TOTAL_BYTES] = " allocated",
                                        [VALUE_TOTAL_OBJECTS] = " objects allocated"};
    const struct amount total = samples_total(samples, display->value);
    const bool is_total =
        display->value == VALUE_TOTAL_BYTES || display->value == VALUE_TOTAL_OBJECTS;
    const char *evidence = display->touched      ? " first touched by these calls"
                           : samples->period > 1 ? " (samples)"
                           : is_total            ? ""
                                                 : " in use";
    const char *kind = display->touched && display_is_bytes(display) ? "" : kinds[display->value];
    char now[DISPLAY_NUMBER_SIZE], base[DISPLAY_NUMBER_SIZE], growth[DISPLAY_CHANGE_SIZE],
        filtered[TOP_FILTERED_SIZE];
    int len;

    display_number(display, (double)total.now, now);
    if (samples->compares)
        len = snprintf(out, SUM_TEXT, "growth %s%s%s, %s before, %s now",
                       display_change(display, (double)amount_growth(&total), growth), kind,
                       evidence, display_number(display, (double)total.base, base), now);
    else
        len = snprintf(out, SUM_TEXT, "%s%s%s", now, kind, evidence);
    if (*top_filtered_text(samples, display, filtered))
        snprintf(out + len, SUM_TEXT - (size_t)len, "; %s", filtered);
    return out;
}

static void write_flame_head(const struct flame *flame, struct json *json)
{
    const struct samples *samples = flame->samples;
    const struct display *display = flame->display;
    char sum[SUM_TEXT], whole[DISPLAY_TITLE_SIZE];
    AUTO_FREE char *title = text_copy_clean(display_title(display, whole), "");
    AUTO_FREE char *command = display->command ? text_copy_clean(display->command, "") : NULL;

    JSON_MEMBERS(json, TEXT("title", title ? title : "?"), TEXT_OR_NULL("command", command),
                 NUMBER_IF(display->rss, "rss", display->rss),
                 NUMBER_IF(display->time_ns, "time", display->time_ns / 1000000),
                 TEXT("sum", sum_text(samples, display, sum)),
                 TEXT("value", value_name(display->value)),
                 FLAG("bytes", display_is_bytes(display)), FLAG("compares", samples->compares),
                 FLAG("inverted", display->inverted),
                 TEXT_OR_NULL("evidence", growth_evidence_text(samples)),
                 NUMBER("period", samples->period), ROUNDED("least", flame->least));
}

/* Makes a tree. If it has no place for all nodes, that is reported like data that are too large. */
static bool grow_flame_tree(struct flame *flame, bool is_inverted)
{
    struct flame_tree *tree = &flame->tree;

    tree->count = tree->open_count = 0;
    tree->least = flame->least;
    tree->is_inverted = is_inverted;
    tree->is_full = false;
    if (!open_node(tree, FLAME_SMALLER) || !enter_stacks(tree, flame->samples, &flame->stacks))
        return false;
    while (tree->open_count)
        if (!close_node(tree))
            return false;
    if (tree->is_full)
        flame->more = least_of_share(tree, FULL_SHARE);
    if (tree->is_full && flame->more == 0)
        flame->more = 1;
    return true;
}

static bool write_flame_data(struct flame *flame, FILE *out)
{
    static const struct flame_call none;
    struct flame_data data = {.samples = flame->samples};
    struct json json;
    bool good;

    table_init(&data.text_table);
    table_init(&data.call_table);
    json_begin(&json, out);
    json.compact = true;
    write_flame_head(flame, &json);
    /* Number 0 is no text, and no call. */
    good = find_data_text(&data, "") == 0 && put_data_call(&data, &none) == 0;
    /* Both trees: from the root to the callees, and from the allocation to its callers. */
    good = good && grow_flame_tree(flame, false) &&
           (flame->more != 0 || write_flame_tree(flame, &data, "callees", &json));
    stacks_invert(&flame->stacks);
    if (flame->more == 0)
        good = good && grow_flame_tree(flame, true) &&
               (flame->more != 0 || write_flame_tree(flame, &data, "callers", &json));
    write_flame_calls(&data, &json);
    if (flame->more == 0)
        is_too_large(flame, &json, 0, flame->tree.count);
    json_end(&json);
    free(data.texts);
    free(data.calls);
    table_free(&data.text_table);
    table_free(&data.call_table);
    return good;
}

/*
 * Returns the data as text; NULL: out of memory. Reduces the detail until they are small enough:
 * in the end, all calls are joined.
 */
static char *fit_flame_data(struct flame *flame, size_t *size)
{
    for (;;) {
        char *text = NULL;
        FILE *out = open_memstream(&text, size);
        flame->more = 0;
        bool good = out && write_flame_data(flame, out);
        if (out && fclose(out) != 0)
            good = false;
        if (good && flame->more == 0)
            return text;
        free(text);
        if (!good || isnan(flame->more))
            return NULL;
        flame->least = flame->more > flame->least ? flame->more : flame->least * 1.25 + 1;
        stacks_invert(&flame->stacks);
    }
}

bool flame_write(const struct samples *samples, const struct display *display, FILE *out)
{
    struct amount total = samples_total(samples, display->value);
    struct flame flame = {
        .samples = samples, .display = display, .least = flame_weight(&total) * display->least};
    char *data = NULL;
    size_t size = 0, deepest = 0;

    if (!stacks_make_each(&flame.stacks, samples, display->value))
        return false;
    for (size_t i = 0; i < flame.stacks.count; i++)
        if (flame.stacks.list[i].depth > deepest)
            deepest = flame.stacks.list[i].depth;
    flame.tree.open = reallocarray(NULL, deepest + 1, sizeof *flame.tree.open);
    flame.tree.smaller = reallocarray(NULL, deepest + 1, sizeof *flame.tree.smaller);
    if (flame.tree.open && flame.tree.smaller)
        data = fit_flame_data(&flame, &size);
    if (data) {
        fwrite(flame_page, 1, flame_page_size, out);
        fwrite(data, 1, size, out);
        fputs("</script>\n</html>\n", out);
    }
    free(data);
    flame_tree_free(&flame.tree);
    stacks_free(&flame.stacks);
    return data != NULL;
}
