#include "profile/dot.h"
#include "base/list.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

struct edge {
    uint32_t from, to; /* groups */
    bool skips;        /* calls between the two are not drawn */
    struct amount amount;
    uint32_t seen; /* the last sample that was counted for it */
};

struct graph {
    const struct samples *samples;
    const struct display *display;
    struct top top;
    uint32_t *numbers; /* of a group: 1 + its row; 0: not drawn */
    struct edge *edges;
    size_t edge_count, edge_capacity;
    struct table table;
    double total;
};

static double node_size(const struct amount *amount)
{
    return fabs((double)amount_growth(amount));
}

static int by_whole(const void *a, const void *b)
{
    const struct top_row *x = a, *y = b;
    double size_x = node_size(&x->whole), size_y = node_size(&y->whole);

    if (size_x != size_y)
        return size_x < size_y ? 1 : -1;
    return x->group < y->group ? -1 : x->group > y->group;
}

/*
 * Chooses the functions that are drawn: those with the most, including the
 * functions that they call.
 */
static bool choose_nodes(struct graph *graph)
{
    size_t limit = graph->display->rows ? graph->display->rows : DOT_NODES, kept = 0;

    graph->numbers = calloc(graph->samples->locations.group_count + 1, sizeof *graph->numbers);
    if (!graph->numbers)
        return false;
    graph->total = (double)graph->top.total.now;
    if (graph->samples->compares && graph->top.total.base)
        graph->total = (double)graph->top.total.base;
    qsort(graph->top.rows, graph->top.count, sizeof *graph->top.rows, by_whole);
    for (; kept < graph->top.count && kept < limit; kept++) {
        const struct top_row *row = &graph->top.rows[kept];
        double size = node_size(&row->whole);
        if (size == 0 || size < graph->display->least * fabs(graph->total))
            break;
        graph->numbers[row->group] = (uint32_t)kept + 1;
    }
    graph->top.count = kept;
    return true;
}

static bool same_edge(const void *ctx, uint32_t place, const void *key)
{
    const struct graph *graph = ctx;
    const struct edge *have = &graph->edges[place], *want = key;
    return have->from == want->from && have->to == want->to;
}

static struct edge *find_edge(struct graph *graph, uint32_t from, uint32_t to)
{
    struct edge fresh = {.from = from, .to = to};
    uint64_t hash = table_hash_number(&graph->table, (uint64_t)from << 32 | to);
    uint32_t place;

    if (!LIST_GROW(graph->edges, graph->edge_capacity, graph->edge_count))
        return NULL;
    place = table_put(&graph->table, hash, same_edge, graph, &fresh, (uint32_t)graph->edge_count);
    if (place == TABLE_NONE)
        return NULL;
    if (place == graph->edge_count)
        graph->edges[graph->edge_count++] = fresh;
    return &graph->edges[place];
}

/* The path from the root over the functions that are drawn: each edge counts once per sample. */
struct walk {
    uint32_t last; /* group; TABLE_NONE: none yet */
    bool skips;
    uint32_t number; /* of the sample, from 1 */
    const struct amount *amount;
};

static bool follow_edge(struct graph *graph, struct walk *walk, uint32_t group)
{
    struct edge *edge;

    if (!graph->numbers[group]) {
        walk->skips = true;
        return true;
    }
    if (walk->last != TABLE_NONE && walk->last != group) {
        edge = find_edge(graph, walk->last, group);
        if (!edge)
            return false;
        edge->skips |= walk->skips;
        if (edge->seen != walk->number)
            amount_add(&edge->amount, walk->amount);
        edge->seen = walk->number;
    }
    walk->last = group;
    walk->skips = false;
    return true;
}

static bool add_edges(struct graph *graph, const struct sample *sample, uint32_t number)
{
    const struct locations *locations = &graph->samples->locations;
    struct walk walk = {
        .last = TABLE_NONE, .number = number, .amount = &sample->values[graph->display->value]};

    for (uint32_t i = sample->depth; i-- > 0;) {
        const struct location *location =
            &locations->list[graph->samples->calls[sample->first + i]];
        for (uint32_t j = location->count; j-- > 0;) {
            uint32_t function = locations->lines[location->first + j].function;
            if (!follow_edge(graph, &walk, locations->functions[function].group))
                return false;
        }
    }
    return true;
}

/*
 * Escapes quotes and backslashes, as in a quoted string of DOT
 * (graphviz.org/doc/info/lang.html).
 */
static void write_quoted(FILE *out, const char *text)
{
    AUTO_FREE char *clean = NULL;
    size_t size;
    FILE *memory = open_memstream(&clean, &size);

    if (!memory)
        return;
    text_write_clean(memory, text, "");
    fclose(memory);
    for (const char *p = clean; p && *p; p++) {
        if (*p == '"' || *p == '\\')
            fputc('\\', out);
        fputc(*p, out);
    }
}

/* Boxes grow with the memory of the function itself, from 8 to 24 points. */
static void write_node(const struct graph *graph, size_t number, FILE *out)
{
    const struct top_row *row = &graph->top.rows[number];
    double flat = (double)amount_growth(&row->flat), whole = (double)amount_growth(&row->whole);
    double part = graph->total != 0 ? fmin(1, fabs(flat / graph->total)) : 0;
    char text[DISPLAY_NUMBER_SIZE];

    fprintf(out, "  N%zu [label=\"", number + 1);
    write_quoted(out, graph->samples->locations.groups[row->group]);
    fprintf(out, "\\n%s (%.2f%%)", display_number(graph->display, flat, text),
            display_percent(flat, graph->total));
    if (flat != whole)
        fprintf(out, "\\nof %s (%.2f%%)", display_number(graph->display, whole, text),
                display_percent(whole, graph->total));
    fprintf(out, "\" fontsize=%.0f fillcolor=\"%s %.3f 1.0\"];\n", 8 + 16 * sqrt(part),
            whole < 0 ? "0.35" : "0.05",
            graph->total != 0 ? 0.05 + 0.35 * fmin(1, fabs(whole / graph->total)) : 0.05);
}

static void write_edge(const struct graph *graph, const struct edge *edge, FILE *out)
{
    double size = (double)amount_growth(&edge->amount);
    double part = graph->total != 0 ? fmin(1, fabs(size / graph->total)) : 0;
    char text[DISPLAY_NUMBER_SIZE];

    if (size == 0)
        return;
    fprintf(out, "  N%u -> N%u [label=\" %s\" penwidth=%.1f weight=%.0f%s];\n",
            graph->numbers[edge->from], graph->numbers[edge->to],
            display_number(graph->display, size, text), 1 + 5 * part, 1 + 100 * part,
            edge->skips ? " style=dashed" : "");
}

static void write_graph(const struct graph *graph, FILE *out)
{
    fputs("digraph \"heap\" {\n"
          "  node [shape=box style=filled fontname=\"sans-serif\" fillcolor=white];\n"
          "  edge [fontname=\"sans-serif\" fontsize=9];\n  label=\"",
          out);
    write_quoted(out, graph->display->title ? graph->display->title : "heap profile");
    fputs("\";\n  labelloc=t;\n", out);
    for (size_t i = 0; i < graph->top.count; i++)
        write_node(graph, i, out);
    for (size_t i = 0; i < graph->edge_count; i++)
        write_edge(graph, &graph->edges[i], out);
    fputs("}\n", out);
}

bool dot_write(const struct samples *samples, const struct display *display, FILE *out)
{
    struct graph graph = {.samples = samples, .display = display};
    bool good;

    table_init(&graph.table);
    good = top_make(&graph.top, samples, display) && choose_nodes(&graph);
    for (size_t i = 0; good && i < samples->count; i++)
        good = add_edges(&graph, &samples->list[i], (uint32_t)i + 1);
    if (good)
        write_graph(&graph, out);
    free(graph.top.rows);
    free(graph.numbers);
    free(graph.edges);
    table_free(&graph.table);
    return good;
}
