/* The call graph: which functions and calls of a profile are drawn. */
#include "check.h"
#include "profile/views/dot.h"
#include "profile/views/graph.h"
#include "stub_symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAPS                                                                                       \
    "\nMAPPED_LIBRARIES:\n"                                                                        \
    "1000-2000 r-xp 00000000 08:02 1 /bin/app\n"

#define LONG_NAME                                                                                  \
    "service::registry_of_connections::find_or_create_session_for<char const*>(char const*)"

static const struct stub_symbol app[] = {
    {0x1100, 0x1200, {{"main", "main", "/src/main.c", 10, 1}}},
    {0x1200, 0x1300, {{"parse", "parse", "/src/parse.c", 20, 1}}},
    {0x1300, 0x1400, {{"load", "load", "/src/load.c", 30, 1}}},
    {0x1400, 0x1500, {{"cache", "cache", "/src/cache.c", 40, 1}}},
    {0x1500, 0x1600, {{LONG_NAME, "find", "/src/find.cc", 50, 1}}},
    {0x1600, 0x1700, {{"tiny", "tiny", "/src/tiny.c", 60, 1}}},
    {0, 0, {{0}}},
};

/*
 * main -> parse -> load holds 600, main -> load 300 and main -> cache 99; tiny
 * holds 1, below half a percent of all.
 */
static const char text[] = "heap_v2/1\n"
                           "@ 0x1301 0x1201 0x1101\n t*: 1: 600 [0: 0]\n"
                           "@ 0x1301 0x1101\n t*: 1: 300 [0: 0]\n"
                           "@ 0x1401 0x1101\n t*: 1: 99 [0: 0]\n"
                           "@ 0x1601 0x1401 0x1101\n t*: 1: 1 [0: 0]\n" MAPS;

struct drawn {
    struct heap_profile profiles[2];
    struct symbols *symbols[2];
    struct samples samples;
    struct graph graph;
};

static bool draw(struct drawn *drawn, const struct stub_symbol *table, const char *now,
                 const char *base, const struct graph_limits *limits)
{
    const char *const texts[] = {now, base};
    const struct symbols_options none = {0};
    const struct display display = {.value = VALUE_BYTES};
    const struct samples_options options = {.short_names = true};

    memset(drawn, 0, sizeof *drawn);
    for (size_t i = 0; i < 2 && texts[i]; i++) {
        stub_next = table;
        if (heap_parse(&drawn->profiles[i], texts[i], strlen(texts[i]), NULL) != FAULT_NONE)
            return false;
        drawn->symbols[i] = locations_symbols(&drawn->profiles[i], &none);
    }
    return samples_build(&drawn->samples, &options, &drawn->profiles[0], drawn->symbols[0],
                         base ? &drawn->profiles[1] : NULL, drawn->symbols[1]) &&
           graph_make(&drawn->graph, &drawn->samples, &display, limits);
}

static void undraw(struct drawn *drawn)
{
    graph_free(&drawn->graph);
    samples_free(&drawn->samples);
    for (size_t i = 0; i < 2; i++) {
        heap_free(&drawn->profiles[i]);
        symbols_free(drawn->symbols[i]);
    }
}

static const struct graph_node *node_named(const struct drawn *drawn, const char *name)
{
    for (size_t i = 0; i < drawn->graph.node_count; i++) {
        const struct graph_node *node = &drawn->graph.nodes[i];
        if (strcmp(drawn->samples.locations.groups[node->group], name) == 0)
            return node;
    }
    return NULL;
}

static const struct graph_edge *edge_named(const struct drawn *drawn, const char *from,
                                           const char *to)
{
    const struct graph_node *x = node_named(drawn, from), *y = node_named(drawn, to);

    for (size_t i = 0; x && y && i < drawn->graph.edge_count; i++) {
        const struct graph_edge *edge = &drawn->graph.edges[i];
        if (&drawn->graph.nodes[edge->from] == x && &drawn->graph.nodes[edge->to] == y)
            return edge;
    }
    return NULL;
}

static bool edge_holds(const struct drawn *drawn, const char *from, const char *to, int64_t bytes)
{
    const struct graph_edge *edge = edge_named(drawn, from, to);
    return edge && amount_growth(&edge->amount) == bytes;
}

/* Returns the sum of the calls into a function. */
static int64_t sum_into(const struct drawn *drawn, const char *name)
{
    int64_t sum = 0;

    for (size_t i = 0; i < drawn->graph.node_count; i++) {
        const struct graph_edge *edge =
            edge_named(drawn, drawn->samples.locations.groups[drawn->graph.nodes[i].group], name);
        sum += edge ? amount_growth(&edge->amount) : 0;
    }
    return sum;
}

/* Without limits the calls into a function add up to what it holds. */
static void test_whole(void)
{
    const struct graph_limits all = {0};
    struct drawn drawn;

    if (CHECK(draw(&drawn, app, text, NULL, &all))) {
        CHECK(drawn.graph.node_count == 5 && drawn.graph.edge_count == 5);
        CHECK(edge_holds(&drawn, "main", "parse", 600) && edge_holds(&drawn, "main", "load", 300) &&
              edge_holds(&drawn, "parse", "load", 600) &&
              edge_holds(&drawn, "main", "cache", 100) && edge_holds(&drawn, "cache", "tiny", 1));
        CHECK(sum_into(&drawn, "load") == amount_growth(&node_named(&drawn, "load")->whole));
        CHECK(amount_growth(&node_named(&drawn, "cache")->flat) == 99);
        CHECK(drawn.graph.max_flat == 900 && drawn.graph.total == 1000);
    }
    undraw(&drawn);
}

/*
 * A function below the share goes first. Of the rest, parse says least: it passes
 * all on from one caller to one callee, although it is larger than cache.
 */
static void test_pruned(void)
{
    const struct graph_limits share = {.node_share = 0.005, .edge_share = 0.001},
                              three = {3, 0.005, 0.001};
    struct drawn drawn;

    if (CHECK(draw(&drawn, app, text, NULL, &share)))
        CHECK(drawn.graph.node_count == 4 && drawn.graph.small_nodes == 1 &&
              !node_named(&drawn, "tiny"));
    undraw(&drawn);
    if (CHECK(draw(&drawn, app, text, NULL, &three))) {
        CHECK(drawn.graph.node_count == 3 && drawn.graph.further_nodes == 1);
        CHECK(!node_named(&drawn, "parse") && node_named(&drawn, "cache"));
        CHECK(edge_holds(&drawn, "main", "load", 900) &&
              edge_named(&drawn, "main", "load")->residual);
        CHECK(!edge_named(&drawn, "main", "cache")->residual);
    }
    undraw(&drawn);
}

/* A call past a function that is left out goes if another way leads to the same function. */
static void test_redundant(void)
{
    static const char ways[] = "heap_v2/1\n"
                               "@ 0x1301 0x1201 0x1101\n t*: 1: 990 [0: 0]\n"
                               "@ 0x1301 0x1601 0x1101\n t*: 1: 4 [0: 0]\n"
                               "@ 0x1401 0x1601 0x1101\n t*: 1: 2 [0: 0]\n" MAPS;
    const struct graph_limits all = {0}, share = {.node_share = 0.0065, .edge_share = 0.001};
    struct drawn drawn;

    if (CHECK(draw(&drawn, app, ways, NULL, &all)))
        CHECK(drawn.graph.redundant_edges == 0 && drawn.graph.edge_count == 5);
    undraw(&drawn);
    if (CHECK(draw(&drawn, app, ways, NULL, &share))) {
        CHECK(drawn.graph.small_nodes == 2 && drawn.graph.redundant_edges == 1);
        CHECK(!edge_named(&drawn, "main", "load") && edge_holds(&drawn, "parse", "load", 990));
    }
    undraw(&drawn);
}

/* A recursion counts once, in functions and calls; a call of oneself is not drawn. */
static void test_recursion(void)
{
    static const char again[] =
        "heap_v2/1\n@ 0x1301 0x1201 0x1201 0x1301 0x1201 0x1101\n t*: 1: 64 [0: 0]\n" MAPS;
    const struct graph_limits all = {0};
    struct drawn drawn;

    if (CHECK(draw(&drawn, app, again, NULL, &all)))
        CHECK(drawn.graph.edge_count == 3 && edge_holds(&drawn, "parse", "load", 64) &&
              edge_holds(&drawn, "load", "parse", 64) && edge_holds(&drawn, "main", "parse", 64));
    undraw(&drawn);
}

enum { MANY = 16 };

/* dot takes minutes for a graph where everything calls everything. */
static void test_many_edges(void)
{
    const struct graph_limits limits = {.nodes = MANY};
    struct stub_symbol table[MANY + 1] = {0};
    char names[MANY][8], *profile = NULL;
    size_t size;
    struct drawn drawn;
    FILE *out = open_memstream(&profile, &size);

    fputs("heap_v2/1\n", out);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "f%u", i);
        table[i] = (struct stub_symbol){
            0x1000 + 16 * i, 0x1010 + 16 * i, {{names[i], names[i], NULL, 0, 0}}};
        for (unsigned j = 0; j < MANY; j++)
            fprintf(out, "@ %#x %#x\n t*: 1: %u [0: 0]\n", 0x1001 + 16 * i, 0x1001 + 16 * j,
                    100 + 16 * i + j);
    }
    fputs(MAPS, out);
    fclose(out);
    if (CHECK(draw(&drawn, table, profile, NULL, &limits))) {
        CHECK(drawn.graph.edge_count == 3 * MANY);
        CHECK(drawn.graph.further_edges == MANY * (MANY - 1) - 3 * MANY);
        for (unsigned i = 0; i < MANY; i++)
            CHECK(sum_into(&drawn, names[i]) > 0);
    }
    undraw(&drawn);
    free(profile);
}

/* The graph as text; the caller frees it. */
static char *drawn_text(const struct drawn *drawn, size_t rows, double least)
{
    struct display display = {
        .value = VALUE_BYTES, .unit = UNIT_BYTES, .rows = rows, .least = least, .title = "a.heap"};
    char *graph = NULL;
    size_t size;
    FILE *out = open_memstream(&graph, &size);

    CHECK(dot_write(&drawn->samples, &display, out));
    fclose(out);
    return graph;
}

/* The legend says what is left out. */
static void test_legend(void)
{
    const struct graph_limits all = {0};
    struct drawn drawn;

    if (CHECK(draw(&drawn, app, text, NULL, &all))) {
        char *graph = drawn_text(&drawn, 3, 0.005);
        CHECK(strstr(graph, "label=\"a.heap\\linuse_space: 1000\\l3 functions, 2 calls\\l"));
        CHECK(strstr(graph, "left out: 1 functions below 0.5%\\l") &&
              strstr(graph, "left out: 1 functions of less interest") &&
              strstr(graph, "dashed: through functions"));
        CHECK(strstr(graph, "label=\" 900\" ") && strstr(graph, " style=dashed"));
        free(graph);
        graph = drawn_text(&drawn, 0, 0);
        CHECK(strstr(graph, "5 functions, 5 calls\\l\"") && !strstr(graph, "left out"));
        free(graph);
    }
    undraw(&drawn);
}

/* A long name is short, in lines, and whole in the tooltip. */
static void test_names(void)
{
    static const char named[] = "heap_v2/1\n@ 0x1501 0x1101\n t*: 1: 64 [0: 0]\n" MAPS;
    const struct graph_limits all = {0};
    struct drawn drawn;

    if (CHECK(draw(&drawn, app, named, NULL, &all))) {
        char *graph = drawn_text(&drawn, 0, 0);
        CHECK(strstr(graph, "\"service::registry_of_\\nconnections::find_or_create_\\n"
                            "session_for\\n64 (100.00%)\""));
        CHECK(strstr(graph, "tooltip=\"" LONG_NAME " (64)\""));
        free(graph);
    }
    undraw(&drawn);
}

/* More is red, less green, and grey what the sampling may have caused. */
static void test_colors(void)
{
    static const char before[] = "heap_v2/1000\n"
                                 "@ 0x1301\n t*: 100: 10000000 [0: 0]\n"
                                 "@ 0x1401\n t*: 100: 10000000 [0: 0]\n"
                                 "@ 0x1601\n t*: 100: 100000 [0: 0]\n" MAPS,
                      after[] = "heap_v2/1000\n"
                                "@ 0x1301\n t*: 200: 20000000 [0: 0]\n"
                                "@ 0x1401\n t*: 10: 1000000 [0: 0]\n"
                                "@ 0x1601\n t*: 101: 101000 [0: 0]\n" MAPS;
    const struct graph_limits all = {0};
    struct drawn drawn;

    if (CHECK(draw(&drawn, app, after, before, &all))) {
        char *graph = drawn_text(&drawn, 0, 0);
        CHECK(strstr(graph, "label=\"load\\n+10000") && strstr(graph, "fillcolor=\"0.00 0."));
        CHECK(strstr(graph, "label=\"cache\\n-9000") && strstr(graph, "fillcolor=\"0.35 0."));
        CHECK(strstr(graph, "label=\"tiny\\n+") && strstr(graph, "fillcolor=\"0 0 0.92\""));
        free(graph);
    }
    undraw(&drawn);
}

int main(void)
{
    test_whole();
    test_pruned();
    test_redundant();
    test_recursion();
    test_many_edges();
    test_legend();
    test_names();
    test_colors();
    return check_result();
}
