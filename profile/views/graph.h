/*
 * The functions of a profile and the calls between them, pruned to what can be
 * drawn and read.
 *
 * The order is that of pprof (github.com/google/pprof, internal/report and
 * internal/graph): functions below a share of the total go first; of the rest
 * those with the highest entropy score stay, that is, large ones with many
 * different callers and callees; then small calls, and calls past functions that
 * are left out if another way leads to the same function.
 */
#pragma once

#include "profile/views/top.h"

struct graph_node {
    uint32_t group;            /* of the locations */
    struct amount flat, whole; /* as in the table (profile/views/top.h) */
    double score;
};

struct graph_edge {
    uint32_t from, to; /* nodes */
    bool residual;     /* functions between the two are left out */
    bool removed;
    struct amount amount; /* each sample counts once */
    uint32_t seen;        /* internal: the last sample that was counted */
};

struct graph {
    struct graph_node *nodes;
    size_t node_count;
    struct graph_edge *edges; /* without the removed ones */
    size_t edge_count, edge_capacity;
    double total; /* what percentages refer to; in a comparison that of the base */
    double max_flat;
    size_t small_nodes, further_nodes; /* left out: below the share; above the number */
    size_t small_edges, redundant_edges, further_edges;
};

struct graph_limits {
    size_t nodes;                  /* 0: any number */
    double node_share, edge_share; /* of the total; 0: everything that is not zero */
};

/* Builds the graph. False: out of memory. Call graph_free in every case. */
bool graph_make(struct graph *graph, const struct samples *samples, const struct display *display,
                const struct graph_limits *limits);
void graph_free(struct graph *graph);

/* Returns the absolute growth of an amount: its size, without a comparison. */
double graph_size(const struct amount *amount);
