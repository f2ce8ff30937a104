#include "profile/views/tree.h"
#include "base/list.h"
#include "profile/views/call_label.h"
#include "profile/views/call_tree.h"
#include "profile/views/display.h"
#include "profile/views/top.h"

#include <math.h>
#include <string.h>

/* Deeper lines are not indented further: they would have no space left, in any terminal. */
enum { LEVELS_SHOWN = 40, LABEL_LEAST = 28 };
/* Calls that share a line: the arrow between them, " > 12 more > ", and their columns in a file. */
enum { ARROW_WIDTH = 3, MORE_WIDTH = 14, SHARED_WIDTH = 70 };

/* Children that are being written. */
struct level {
    uint32_t first, next, end; /* in nodes */
};

struct writer {
    const struct samples *samples;
    const struct display *display;
    const struct call_tree *tree;
    struct amount whole;  /* of the profile */
    struct level *levels; /* from the root's children to the present ones */
    size_t count, capacity;
    struct call_node untold; /* what is too small even to be named where it is */
    FILE *out;
};

/* The characters that draw the tree. */
static const struct {
    const char *child, *last, *past, *none;
} strokes[] = {
    {"|-", "`-", "| ", "  "},
    {"\u251c\u2500", "\u2514\u2500", "\u2502 ", "  "},
};

static bool is_within(const struct writer *writer, const struct amount *amount)
{
    return fabs((double)amount_growth(amount)) < samples_error(writer->samples, amount);
}

/* Writes the columns before the tree. */
static void write_amounts(const struct writer *writer, const struct call_node *node)
{
    const struct amount_columns columns = {&node->amount, &node->objects, &writer->whole,
                                           samples_error(writer->samples, &node->amount),
                                           is_within(writer, &node->amount)};

    amount_columns_write(writer->samples, writer->display, &columns, writer->out);
}

/* Writes the lines that lead to a call; first: the line with its amounts. */
static void write_strokes(const struct writer *writer, bool first)
{
    size_t shown = writer->count < LEVELS_SHOWN ? writer->count : LEVELS_SHOWN;
    bool utf8 = writer->display->utf8;

    for (size_t i = 1; i < shown; i++) {
        bool more = writer->levels[i].next < writer->levels[i].end;
        if (first && i + 1 == shown)
            fputs(more ? strokes[utf8].child : strokes[utf8].last, writer->out);
        else
            fputs(more ? strokes[utf8].past : strokes[utf8].none, writer->out);
    }
}

/* Returns the columns that are left for calls; 0: no limit. */
static size_t label_room(const struct writer *writer)
{
    size_t shown = writer->count < LEVELS_SHOWN ? writer->count : LEVELS_SHOWN,
           used = amount_columns_width(writer->samples) + 2 * (shown - 1),
           width = writer->display->width;

    if (!width)
        return 0;
    return width > used + LABEL_LEAST ? width - used : LABEL_LEAST;
}

static void write_style(const struct writer *writer, const char *style)
{
    if (writer->display->colors)
        fputs(style, writer->out);
}

static const struct function *function_of(const struct writer *writer, const struct call_node *node)
{
    return &writer->samples->locations.functions[node->function];
}

static bool is_own(const struct writer *writer, const struct call_node *node)
{
    return call_node_is_call(node) && function_of(writer, node)->kind == CODE_OWN;
}

/* Adds the small parts of a node to those that are summed up at the end. */
static void note_untold(struct writer *writer, const struct call_node *node)
{
    for (uint32_t i = 0; i < node->count; i++) {
        const struct call_node *child = &writer->tree->nodes[node->first + i];
        if (call_node_is_call(child))
            continue;
        writer->untold.largest =
            fmax(writer->untold.largest,
                 child->function == CALL_SMALLER ? child->largest : child->weight);
        writer->untold.calls += child->function == CALL_SMALLER ? child->calls : 1;
        amount_add(&writer->untold.amount, &child->amount);
        amount_add(&writer->untold.objects, &child->objects);
    }
}

static bool same_amounts(const struct call_node *a, const struct call_node *b)
{
    return a->amount.now == b->amount.now && a->amount.base == b->amount.base &&
           a->objects.now == b->objects.now && a->objects.base == b->objects.base;
}

/* Starts the line of a node, with its amounts unless they are those of the line above. */
static void begin_line(const struct writer *writer, const struct call_node *node,
                       const struct call_node *above)
{
    if (writer->samples->compares && is_within(writer, &node->amount))
        write_style(writer, "\033[2m");
    if (above && same_amounts(node, above))
        fprintf(writer->out, "%*s", (int)amount_columns_width(writer->samples), "");
    else
        write_amounts(writer, node);
    write_strokes(writer, !above);
}

/* Writes how large the calls of a sum are, so that nothing large hides in it. */
static void write_largest(const struct writer *writer, const struct call_node *node)
{
    char text[DISPLAY_NUMBER_SIZE];

    if (node->calls > 1)
        fprintf(writer->out, ", each at most %s",
                display_number(writer->display, node->largest, text));
}

/* Writes a part of a call that is not a call below it. The first of its siblings is not smaller. */
static void write_part(const struct writer *writer, const struct call_node *node)
{
    const struct level *level = &writer->levels[writer->count - 1];

    begin_line(writer, node, NULL);
    write_style(writer, "\033[2m");
    if (node->function == CALL_SELF)
        fputs("(itself)", writer->out);
    else
        fprintf(writer->out, "%u %s call%s", node->calls,
                level->next - level->first > 1 ? "smaller" : "more", node->calls == 1 ? "" : "s");
    if (node->function == CALL_SMALLER)
        write_largest(writer, node);
    write_style(writer, "\033[0m");
    fputc('\n', writer->out);
}

/* Writes a call on the present line. */
static void write_call(const struct writer *writer, const struct call_node *node, size_t room)
{
    char label[CALL_LABEL_SIZE];
    bool own = is_own(writer, node);

    call_label(writer->samples, function_of(writer, node), node->line,
               own || writer->display->lines, room, label);
    write_style(writer, own ? "\033[1m" : "\033[2m");
    fputs(label, writer->out);
    write_style(writer, "\033[0m");
}

/*
 * True if a call may follow another one on the same line: calls that are not
 * the program's own, with the same amounts.
 */
static bool may_share(const struct writer *writer, const struct call_node *node,
                      const struct call_node *next)
{
    return next && !writer->display->unfolded && !writer->display->lines && !node->cut &&
           !is_own(writer, node) && !is_own(writer, next) && same_amounts(node, next);
}

/* Finds the last call of a run that may share one line. Returns the number of calls. */
static uint32_t find_run(const struct writer *writer, const struct call_node *node,
                         const struct call_node **last)
{
    const struct call_node *next;
    uint32_t calls = 1;

    while (next = call_tree_only_child(writer->tree, node), may_share(writer, node, next)) {
        node = next;
        calls++;
    }
    *last = node;
    return calls;
}

static size_t call_width(const struct writer *writer, const struct call_node *node)
{
    char label[CALL_LABEL_SIZE];

    return call_label(writer->samples, function_of(writer, node), 0, false, 0, label);
}

/* True if all calls of a run, with the arrows between them, have at most `limit` columns. */
static bool run_fits(const struct writer *writer, const struct call_node *node,
                     const struct call_node *last, size_t limit)
{
    size_t width = call_width(writer, node);

    for (; node != last && width <= limit; width += ARROW_WIDTH + call_width(writer, node))
        node = call_tree_only_child(writer->tree, node);
    return width <= limit;
}

/* How a run is shown: all its calls, or the first ones, a number, and perhaps the last one. */
struct run {
    const struct call_node *last;
    uint32_t calls;    /* 1: it is only its first call */
    uint32_t left_out; /* of them, after the first */
};

/* Writes the calls of a run but the first. */
static void write_run(struct writer *writer, const struct call_node *node, const struct run *run)
{
    for (uint32_t i = 1; i < run->calls; i++) {
        note_untold(writer, node);
        node = call_tree_only_child(writer->tree, node);
        if (i == run->left_out)
            fprintf(writer->out, " > %u more", run->left_out);
        if (i <= run->left_out)
            continue;
        fputs(" > ", writer->out);
        write_call(writer, node, 0);
    }
}

/* Decides how much of a run fits in the columns. */
static void fit_run(const struct writer *writer, const struct call_node *node, struct run *run,
                    size_t limit)
{
    size_t first = call_width(writer, node) + MORE_WIDTH;

    run->left_out = 0;
    if (run_fits(writer, node, run->last, limit))
        return;
    if (run->calls > 2 && first + call_width(writer, run->last) <= limit) {
        run->left_out = run->calls - 2;
    } else if (run->calls > 2) {
        run->left_out = run->calls - 1;
    } else {
        run->last = node;
        run->calls = 1;
    }
}

/* Writes a node and all calls that continue its line, then opens the level below them. */
static bool write_trunk(struct writer *writer, const struct call_node *node)
{
    const struct call_node *next = node, *above = NULL;

    if (!call_node_is_call(node)) {
        write_part(writer, node);
        return true;
    }
    do {
        /*
         * A node and the calls that may share its line: if they do not fit, some are only
         * counted.
         */
        size_t room = label_room(writer);
        struct run run;
        run.calls = find_run(writer, next, &run.last);
        fit_run(writer, next, &run, room ? room : SHARED_WIDTH);
        begin_line(writer, next, above);
        write_call(writer, next, room && run.left_out ? room - MORE_WIDTH : room);
        write_run(writer, next, &run);
        fputs(run.last->cut ? " ..\n" : "\n", writer->out);
        node = run.last;
        above = node;
        next = call_tree_only_child(writer->tree, node);
        if (next)
            note_untold(writer, node);
    } while (next);
    if (!node->count)
        return true;
    if (!LIST_GROW(writer->levels, writer->capacity, writer->count))
        return false;
    writer->levels[writer->count++] =
        (struct level){node->first, node->first, node->first + node->count};
    return true;
}

static bool write_nodes_below(struct writer *writer)
{
    const struct call_node *root = &writer->tree->nodes[0];

    if (!LIST_GROW(writer->levels, writer->capacity, writer->count))
        return false;
    writer->levels[writer->count++] =
        (struct level){root->first, root->first, root->first + root->count};
    while (writer->count) {
        struct level *level = &writer->levels[writer->count - 1];
        if (level->next == level->end)
            writer->count--;
        else if (!write_trunk(writer, &writer->tree->nodes[level->next++]))
            return false;
    }
    return true;
}

bool tree_write(const struct samples *samples, const struct display *display, FILE *out)
{
    struct call_tree tree;
    struct writer writer = {.samples = samples,
                            .display = display,
                            .tree = &tree,
                            .whole = samples_whole(samples, display->value),
                            .out = out};
    bool good = call_tree_make(&tree, samples, display);

    if (good) {
        top_head_write(samples, display, &tree.nodes[0].amount, &tree.nodes[0].objects, out);
        if (tree.nodes[0].count) {
            const char *calls =
                writer.display->inverted ? "calls, innermost first" : "calls, outermost first";
            amount_columns_head(writer.samples, writer.display, calls, writer.out);
        } else if (samples->compares) {
            fputs("no stack has changed\n", out);
        }
        good = write_nodes_below(&writer);
        if (writer.untold.calls) {
            write_amounts(&writer, &writer.untold);
            fprintf(writer.out, "in %u smaller call%s of the lines above", writer.untold.calls,
                    writer.untold.calls == 1 ? "" : "s");
            write_largest(&writer, &writer.untold);
            fputs(" (--rows 0 shows all)\n", writer.out);
        }
    }
    free(writer.levels);
    call_tree_free(&tree);
    return good;
}
