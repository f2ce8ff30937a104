#include "profile/views/dot.h"
#include "base/text.h"
#include "profile/views/graph.h"
#include "profile/views/top.h"

#include <math.h>
#include <string.h>

enum {
    NAME_LINE = 32,   /* characters of a line of a name, about as wide as the numbers below it */
    NAME_LINES = 6,   /* lines of a name */
    FULL_NAME = 1000, /* bytes of a name in a tooltip */
    FONT_LEAST = 8,   /* points; pprof's sizes */
    FONT_GROWTH = 16,
    ROW_LEAST = 8, /* callees of a function that are drawn side by side */
    ROWS_MOST = 12,
};

/* The edges at a node: in all, and written so far. */
struct fan {
    unsigned all, written;
};

struct drawing {
    const struct samples *samples;
    const struct display *display;
    struct graph graph;
    double whole;                  /* of the profile: what shares are of */
    struct fan *callees, *callers; /* of each node */
    FILE *out;
};

/* Escapes quotes and backslashes, as in a quoted string of DOT (graphviz.org/doc/info/lang.html).
 */
static void write_escaped(FILE *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"' || text[i] == '\\')
            fputc('\\', out);
        fputc(text[i], out);
    }
}

/* Returns the bytes of at most `most` characters. */
static size_t characters_len(const char *text, size_t most)
{
    size_t len = 0;
    bool shown;

    while (text[len] && most-- > 0)
        len += text_unit(text + len, &shown);
    return len;
}

static void write_shortened(FILE *out, const char *text, size_t most)
{
    AUTO_FREE char *clean = text_copy_clean(text, "");
    size_t len = clean ? characters_len(clean, most) : 0;

    write_escaped(out, clean, len);
    if (clean && clean[len])
        fputs("...", out);
}

/* Returns the bytes of the next line of a name: up to the last place where a word ends. */
static size_t name_line_len(const char *name)
{
    size_t len = characters_len(name, NAME_LINE);

    if (!name[len])
        return len;
    for (size_t i = len; i > NAME_LINE / 4; i--)
        if (strchr("_:. ,/>", name[i - 1]) && name[i] != name[i - 1])
            return i;
    return len;
}

/* Writes a name in lines, broken after "::", "_" and similar. */
static void write_label_name(FILE *out, const char *name)
{
    AUTO_FREE char *clean = text_copy_clean(name, "");
    const char *at = clean;

    for (unsigned i = 0; at && *at; i++) {
        size_t len = name_line_len(at);
        if (i == NAME_LINES) {
            fputs("\\n...", out);
            return;
        }
        if (i)
            fputs("\\n", out);
        write_escaped(out, at, len);
        at += len;
    }
}

static const char *full_name(const struct drawing *drawing, uint32_t node)
{
    const struct locations *locations = &drawing->samples->locations;
    uint32_t group = drawing->graph.nodes[node].group;

    return locations->functions[locations->group_functions[group]].name;
}

/* The share of the total, at most 1. */
static double part_of(const struct drawing *drawing, const struct amount *amount)
{
    double total = fabs(drawing->graph.total);
    return total > 0 ? fmin(1, graph_size(amount) / total) : 0;
}

/* Growth is red, shrinking green, grey what the sampling alone may have caused. */
static const char *hue_of(const struct drawing *drawing, const struct amount *amount)
{
    if (!drawing->samples->compares)
        return "0.05";
    return amount_growth(amount) < 0 ? "0.35" : "0.00";
}

static bool is_uncertain(const struct drawing *drawing, const struct amount *amount)
{
    return drawing->samples->compares &&
           graph_size(amount) < samples_error(drawing->samples, amount);
}

/* "12 MiB"; in a comparison with its sign. */
static const char *growth_label(const struct drawing *drawing, const struct amount *amount,
                                char out[DISPLAY_CHANGE_SIZE])
{
    double growth = (double)amount_growth(amount);

    return drawing->samples->compares ? display_change(drawing->display, growth, out)
                                      : display_number(drawing->display, growth, out);
}

static double percent(const struct drawing *drawing, const struct amount *amount)
{
    return display_percent((double)amount_growth(amount), drawing->whole);
}

/* Boxes grow with the memory of the function itself. */
static void write_node(const struct drawing *drawing, uint32_t number)
{
    const struct graph_node *node = &drawing->graph.nodes[number];
    double most = drawing->graph.max_flat;
    char text[DISPLAY_CHANGE_SIZE];
    FILE *out = drawing->out;

    fprintf(out, "  N%u [label=\"", number + 1);
    write_label_name(out, drawing->samples->locations.groups[node->group]);
    fprintf(out, "\\n%s (%.2f%%)", growth_label(drawing, &node->flat, text),
            percent(drawing, &node->flat));
    if (amount_growth(&node->flat) != amount_growth(&node->whole))
        fprintf(out, "\\nof %s (%.2f%%)", growth_label(drawing, &node->whole, text),
                percent(drawing, &node->whole));
    fputs("\" tooltip=\"", out);
    write_shortened(out, full_name(drawing, number), FULL_NAME);
    fprintf(out, " (%s)\" fontsize=%.0f", growth_label(drawing, &node->whole, text),
            FONT_LEAST + (most > 0 ? FONT_GROWTH * sqrt(graph_size(&node->flat) / most) : 0));
    if (is_uncertain(drawing, &node->whole))
        fputs(" fillcolor=\"0 0 0.92\" color=\"0 0 0.6\" fontcolor=\"0 0 0.4\"", drawing->out);
    else
        fprintf(drawing->out, " fillcolor=\"%s %.3f 1.0\" color=\"%s %.3f 0.7\"",
                hue_of(drawing, &node->whole), 0.05 + 0.35 * part_of(drawing, &node->whole),
                hue_of(drawing, &node->whole), 0.2 + 0.8 * sqrt(part_of(drawing, &node->whole)));
    fputs("];\n", out);
}

/* Returns the row, below the first one, of the next edge of a fan: the largest come first. */
static unsigned next_row(struct fan *fan)
{
    unsigned side_by_side = (fan->all + ROWS_MOST - 1) / ROWS_MOST;

    return fan->written++ / (side_by_side > ROW_LEAST ? side_by_side : ROW_LEAST);
}

static void write_edge(const struct drawing *drawing, const struct graph_edge *edge)
{
    double part = part_of(drawing, &edge->amount);
    char text[DISPLAY_CHANGE_SIZE];
    /*
     * The number of rows that the edge goes down: dot would draw all callees of a
     * function side by side, which can be thousands of pixels wide.
     */
    unsigned callee = next_row(&drawing->callees[edge->from]),
             caller = next_row(&drawing->callers[edge->to]);
    unsigned rows = 1 + (callee > caller ? callee : caller);

    growth_label(drawing, &edge->amount, text);
    fprintf(drawing->out, "  N%u -> N%u [label=\" %s\" penwidth=%.1f weight=%.0f", edge->from + 1,
            edge->to + 1, text, 1 + 5 * part, 1 + 100 * part);
    if (rows > 1)
        fprintf(drawing->out, " minlen=%u", rows);
    if (is_uncertain(drawing, &edge->amount))
        fputs(" color=\"0 0 0.7\" fontcolor=\"0 0 0.5\"", drawing->out);
    else
        fprintf(drawing->out, " color=\"%s %.3f %.3f\"", hue_of(drawing, &edge->amount),
                0.1 + 0.9 * sqrt(part), 0.75 - 0.15 * part);
    if (edge->residual)
        fputs(" style=dashed", drawing->out);
    static const char *const names[] = {"tooltip", "labeltooltip"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        fprintf(drawing->out, " %s=\"", names[i]);
        write_shortened(drawing->out, full_name(drawing, edge->from), FULL_NAME / 4);
        fputs(" -> ", drawing->out);
        write_shortened(drawing->out, full_name(drawing, edge->to), FULL_NAME / 4);
        fprintf(drawing->out, " (%s)\"", text);
    }
    fputs("];\n", drawing->out);
}

/* The text of the legend about what is not drawn. */
static void write_left_out(const struct drawing *drawing, const struct graph_limits *limits)
{
    const struct graph *graph = &drawing->graph;
    FILE *out = drawing->out;

    fprintf(out, "%zu functions, %zu calls\\l", graph->node_count, graph->edge_count);
    if (graph->small_nodes)
        fprintf(out, "left out: %zu functions below %g%%\\l", graph->small_nodes,
                100 * limits->node_share);
    if (graph->further_nodes)
        fprintf(out, "left out: %zu functions of less interest (--rows)\\l", graph->further_nodes);
    if (graph->small_edges)
        fprintf(out, "left out: %zu calls below %g%%\\l", graph->small_edges,
                100 * limits->edge_share);
    if (graph->redundant_edges)
        fprintf(out, "left out: %zu indirect calls that other calls imply\\l",
                graph->redundant_edges);
    if (graph->further_edges)
        fprintf(out, "left out: %zu small calls, too many to draw\\l", graph->further_edges);
}

static bool draws_residual(const struct graph *graph)
{
    for (size_t i = 0; i < graph->edge_count; i++)
        if (graph->edges[i].residual)
            return true;
    return false;
}

static void write_legend(const struct drawing *drawing, const struct graph_limits *limits)
{
    FILE *out = drawing->out;
    char title[DISPLAY_TITLE_SIZE];

    fputs("  subgraph cluster_L { style=invis; legend [shape=note fontsize=14 "
          "fillcolor=\"0 0 0.97\" label=\"",
          out);
    write_shortened(out, display_title(drawing->display, title), FULL_NAME / 5);
    fputs("\\l", out);
    const struct display *display = drawing->display;
    struct amount total = samples_total(drawing->samples, display->value);
    char now[DISPLAY_NUMBER_SIZE], base[DISPLAY_NUMBER_SIZE];
    fprintf(out, "%s: ", value_name(display->value));
    if (drawing->samples->period > 1 && !drawing->samples->compares)
        fprintf(out, "%llu samples stand for ",
                (unsigned long long)top_sampled(drawing->samples, display));
    fputs(display_number(display, (double)total.now, now), out);
    if (drawing->samples->compares)
        fprintf(drawing->out, ", before %s", display_number(display, (double)total.base, base));
    fputs("\\l", drawing->out);
    write_left_out(drawing, limits);
    if (draws_residual(&drawing->graph))
        fputs("dashed: through functions that are left out\\l", out);
    if (drawing->samples->compares)
        fputs("red: more; green: less; grey: within the error of the sampling\\l", out);
    fputs("\" tooltip=\"\"]; }\n", out);
}

/*
 * nslimit ends the search for a better arrangement, which takes minutes for some
 * graphs, after two rounds for each node (graphviz.org/docs/attrs/nslimit).
 */
static void write_graph(const struct drawing *drawing, const struct graph_limits *limits)
{
    const struct graph *graph = &drawing->graph;

    fputs("digraph \"heap\" {\n"
          "  nslimit=2; nslimit1=2;\n"
          "  node [shape=box style=filled fontname=\"sans-serif\" fillcolor=white];\n"
          "  edge [fontname=\"sans-serif\" fontsize=9];\n",
          drawing->out);
    write_legend(drawing, limits);
    for (size_t i = 0; i < graph->node_count; i++)
        write_node(drawing, (uint32_t)i);
    for (size_t i = 0; i < graph->edge_count; i++)
        write_edge(drawing, &graph->edges[i]);
    fputs("}\n", drawing->out);
}

static bool count_fans(struct drawing *drawing)
{
    const struct graph *graph = &drawing->graph;

    drawing->callees = calloc(graph->node_count + 1, sizeof *drawing->callees);
    drawing->callers = calloc(graph->node_count + 1, sizeof *drawing->callers);
    if (!drawing->callees || !drawing->callers)
        return false;
    for (size_t i = 0; i < graph->edge_count; i++) {
        drawing->callees[graph->edges[i].from].all++;
        drawing->callers[graph->edges[i].to].all++;
    }
    return true;
}

bool dot_write(const struct samples *samples, const struct display *display, FILE *out)
{
    struct amount whole = samples_whole(samples, display->value);
    struct drawing drawing = {
        .samples = samples,
        .display = display,
        .whole = (double)(samples->compares && whole.base ? whole.base : whole.now),
        .out = out};
    struct graph_limits limits = {.nodes = display->rows || display->least == 0 ? display->rows
                                                                                : DOT_NODES,
                                  .node_share = display->least,
                                  .edge_share = display->least / 5};
    bool good = graph_make(&drawing.graph, samples, display, &limits) && count_fans(&drawing);

    if (good)
        write_graph(&drawing, &limits);
    free(drawing.callees);
    free(drawing.callers);
    graph_free(&drawing.graph);
    return good;
}
