#include "profile/views/graph.h"
#include "base/list.h"

#include <math.h>
#include <string.h>

/* dot needs minutes for a few hundred nodes that have more edges than this each. */
enum { EDGES_PER_NODE = 3 };
/* Steps of the search for other ways, a second's work: after that the remaining edges stay. */
enum { SEARCH_STEPS = 200 << 20 };

struct builder {
    struct graph *graph;
    const struct samples *samples;
    enum value value;
    uint32_t *numbers;  /* of a group: 1 + its node; 0: left out */
    struct table table; /* of edges */
};

double graph_size(const struct amount *amount)
{
    return fabs((double)amount_growth(amount));
}

static bool same_edge(const void *ctx, uint32_t place, const void *key)
{
    const struct graph *graph = ctx;
    const struct graph_edge *have = &graph->edges[place], *want = key;
    return have->from == want->from && have->to == want->to;
}

static struct graph_edge *find_edge(struct builder *builder, uint32_t from, uint32_t to)
{
    struct graph *graph = builder->graph;
    struct graph_edge fresh = {.from = from, .to = to};
    uint64_t hash = table_hash_number(&builder->table, (uint64_t)from << 32 | to);
    uint32_t place;

    if (!LIST_GROW(graph->edges, graph->edge_capacity, graph->edge_count))
        return NULL;
    place = table_put(&builder->table, hash, same_edge, graph, &fresh, (uint32_t)graph->edge_count);
    if (place == TABLE_NONE)
        return NULL;
    if (place == graph->edge_count)
        graph->edges[graph->edge_count++] = fresh;
    return &graph->edges[place];
}

/* Follows a sample from the root over the functions that are kept. number: of it, from 1 */
static bool add_path(struct builder *builder, const struct sample *sample, uint32_t number)
{
    const struct locations *locations = &builder->samples->locations;
    const uint32_t *calls = &builder->samples->calls[sample->first];
    uint32_t last = 0; /* number of a node + 1; 0: none yet */
    bool residual = false;

    for (uint32_t i = sample->depth; i-- > 0;) {
        const struct location *location = &locations->list[calls[i]];
        for (uint32_t j = location->count; j-- > 0;) {
            uint32_t function = locations->lines[location->first + j].function;
            uint32_t node = builder->numbers[locations->functions[function].group];
            residual |= !node;
            if (!node)
                continue;
            if (last && last != node) {
                struct graph_edge *edge = find_edge(builder, last - 1, node - 1);
                if (!edge)
                    return false;
                edge->residual |= residual;
                if (edge->seen != number)
                    amount_add(&edge->amount, &sample->values[builder->value]);
                edge->seen = number;
            }
            last = node;
            residual = false;
        }
    }
    return true;
}

/* Finds the calls between the nodes; those of other nodes are forgotten. */
static bool find_edges(struct builder *builder)
{
    struct graph *graph = builder->graph;
    bool good = true;

    table_free(&builder->table);
    table_init(&builder->table);
    graph->edge_count = 0;
    memset(builder->numbers, 0, builder->samples->locations.group_count * sizeof *builder->numbers);
    for (size_t i = 0; i < graph->node_count; i++)
        builder->numbers[graph->nodes[i].group] = (uint32_t)i + 1;
    for (size_t i = 0; good && i < builder->samples->count; i++)
        good = add_path(builder, &builder->samples->list[i], (uint32_t)i + 1);
    return good;
}

/* Takes the functions of the table that reach the share. */
static bool take_nodes(struct graph *graph, const struct top *top, double share)
{
    graph->nodes = calloc(top->count + 1, sizeof *graph->nodes);
    for (size_t i = 0; graph->nodes && i < top->count; i++) {
        const struct top_row *row = &top->rows[i];
        double size = graph_size(&row->whole);
        if (size == 0)
            continue;
        if (size < share * fabs(graph->total))
            graph->small_nodes++;
        else
            graph->nodes[graph->node_count++] =
                (struct graph_node){.group = row->group, .flat = row->flat, .whole = row->whole};
    }
    return graph->nodes != NULL;
}

/* The sizes of the edges into and out of a node. */
struct flow {
    double in, out;
};

/* Returns a summand of the entropy: how much a part says about the whole. */
static double surprise(double part, double whole)
{
    return part > 0 && whole > 0 ? -part / whole * log2(part / whole) : 0;
}

/*
 * Scores each node by the entropy of its callers and of its callees, times its
 * size: a function that passes everything on from one caller to one callee can
 * be left out without a loss. Where stacks begin or end counts as one bit.
 */
static bool score_nodes(struct graph *graph)
{
    AUTO_FREE struct flow *flows = calloc(graph->node_count + 1, sizeof *flows);

    if (!flows)
        return false;
    for (size_t i = 0; i < graph->edge_count; i++) {
        double size = graph_size(&graph->edges[i].amount);
        flows[graph->edges[i].to].in += size;
        flows[graph->edges[i].from].out += size;
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        struct graph_node *node = &graph->nodes[i];
        double flat = graph_size(&node->flat);
        node->score = (flows[i].in == 0) + (flows[i].out == 0);
        if (flows[i].out > 0) {
            flows[i].out += flat;
            node->score += surprise(flat, flows[i].out);
        }
    }
    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct graph_edge *edge = &graph->edges[i];
        double size = graph_size(&edge->amount);
        graph->nodes[edge->to].score += surprise(size, flows[edge->to].in);
        graph->nodes[edge->from].score += surprise(size, flows[edge->from].out);
    }
    for (size_t i = 0; i < graph->node_count; i++)
        graph->nodes[i].score = graph->nodes[i].score * graph_size(&graph->nodes[i].whole) +
                                graph_size(&graph->nodes[i].flat);
    return true;
}

static int by_score(const void *a, const void *b)
{
    const struct graph_node *x = a, *y = b;

    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    if (graph_size(&x->whole) != graph_size(&y->whole))
        return graph_size(&x->whole) < graph_size(&y->whole) ? 1 : -1;
    return x->group < y->group ? -1 : x->group > y->group;
}

static bool select_nodes(struct builder *builder, size_t most)
{
    struct graph *graph = builder->graph;

    if (!score_nodes(graph))
        return false;
    qsort(graph->nodes, graph->node_count, sizeof *graph->nodes, by_score);
    if (most && graph->node_count > most) {
        graph->further_nodes = graph->node_count - most;
        graph->node_count = most;
    }
    return find_edges(builder);
}

static int by_edge_size(const void *a, const void *b)
{
    const struct graph_edge *x = a, *y = b;
    double size_x = graph_size(&x->amount), size_y = graph_size(&y->amount);

    if (size_x != size_y)
        return size_x < size_y ? 1 : -1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Moves the removed edges out of the list. Returns their number. */
static size_t drop_edges(struct graph *graph)
{
    size_t kept = 0, dropped;

    for (size_t i = 0; i < graph->edge_count; i++)
        if (!graph->edges[i].removed)
            graph->edges[kept++] = graph->edges[i];
    dropped = graph->edge_count - kept;
    graph->edge_count = kept;
    return dropped;
}

/* The edges by the node that they lead to. */
struct entries {
    uint32_t *first; /* of a node: its first place in edges; one more than there are nodes */
    uint32_t *edges;
    uint32_t *queue; /* nodes that are still to be visited */
    bool *visited;
    uint64_t steps; /* that are left */
};

static bool entries_make(struct entries *entries, const struct graph *graph)
{
    entries->first = calloc(graph->node_count + 2, sizeof *entries->first);
    entries->edges = calloc(graph->edge_count + 1, sizeof *entries->edges);
    entries->queue = calloc(graph->node_count + 1, sizeof *entries->queue);
    entries->visited = calloc(graph->node_count + 1, sizeof *entries->visited);
    if (!entries->first || !entries->edges || !entries->queue || !entries->visited)
        return false;
    for (size_t i = 0; i < graph->edge_count; i++)
        entries->first[graph->edges[i].to + 1]++;
    for (size_t i = 0; i < graph->node_count; i++)
        entries->first[i + 1] += entries->first[i];
    for (size_t i = graph->edge_count; i-- > 0;) {
        uint32_t node = graph->edges[i].to;
        entries->edges[entries->first[node + 1] - 1 - entries->queue[node]++] = (uint32_t)i;
    }
    return true;
}

/* True if a path without this edge leads from its caller to its callee. */
static bool is_redundant(const struct graph *graph, struct entries *entries,
                         const struct graph_edge *edge)
{
    size_t head = 0, tail = 0;

    if (!entries->steps)
        return false;
    memset(entries->visited, 0, graph->node_count * sizeof *entries->visited);
    entries->queue[tail++] = edge->to;
    entries->visited[edge->to] = true;
    while (head < tail && entries->steps) {
        uint32_t node = entries->queue[head++];
        uint64_t work = 1 + entries->first[node + 1] - entries->first[node];
        entries->steps -= work < entries->steps ? work : entries->steps;
        for (uint32_t i = entries->first[node]; i < entries->first[node + 1]; i++) {
            const struct graph_edge *way = &graph->edges[entries->edges[i]];
            if (way == edge || way->removed || entries->visited[way->from])
                continue;
            if (way->from == edge->from)
                return true;
            entries->visited[way->from] = true;
            entries->queue[tail++] = way->from;
        }
    }
    return false;
}

/*
 * Removes calls past functions that are left out, the smallest first, but none
 * that is larger than a direct call of the same function: its absence would
 * surprise. The edges are sorted, the largest first.
 */
static bool drop_redundant(struct graph *graph)
{
    struct entries entries = {.steps = SEARCH_STEPS};
    bool good = entries_make(&entries, graph);

    for (size_t node = graph->node_count; good && node-- > 0;) {
        for (uint32_t i = entries.first[node + 1]; i-- > entries.first[node];) {
            struct graph_edge *edge = &graph->edges[entries.edges[i]];
            if (!edge->residual)
                break;
            edge->removed = is_redundant(graph, &entries, edge);
        }
    }
    free(entries.first);
    free(entries.edges);
    free(entries.queue);
    free(entries.visited);
    graph->redundant_edges = drop_edges(graph);
    return good;
}

/* No node loses its largest edges; of the others the largest stay. */
static bool limit_edges(struct graph *graph, size_t most)
{
    AUTO_FREE bool *entered = calloc(graph->node_count + 1, sizeof *entered);
    AUTO_FREE bool *left = calloc(graph->node_count + 1, sizeof *left);
    size_t kept = 0;

    if (!entered || !left)
        return false;
    if (graph->edge_count <= most)
        return true;
    for (size_t i = 0; i < graph->edge_count; i++) {
        struct graph_edge *edge = &graph->edges[i];
        edge->removed = entered[edge->to] && left[edge->from];
        entered[edge->to] = left[edge->from] = true;
        kept += !edge->removed;
    }
    for (size_t i = 0; kept < most && i < graph->edge_count; i++)
        if (graph->edges[i].removed) {
            graph->edges[i].removed = false;
            kept++;
        }
    graph->further_edges = drop_edges(graph);
    return true;
}

static bool prune_edges(struct graph *graph, const struct graph_limits *limits)
{
    if (graph->edge_count)
        qsort(graph->edges, graph->edge_count, sizeof *graph->edges, by_edge_size);
    for (size_t i = 0; i < graph->edge_count; i++) {
        double size = graph_size(&graph->edges[i].amount);
        graph->edges[i].removed = size == 0 || size < limits->edge_share * fabs(graph->total);
    }
    graph->small_edges = drop_edges(graph);
    return drop_redundant(graph) &&
           (!limits->nodes || limit_edges(graph, EDGES_PER_NODE * graph->node_count));
}

bool graph_make(struct graph *graph, const struct samples *samples, const struct display *display,
                const struct graph_limits *limits)
{
    struct builder builder = {.graph = graph, .samples = samples, .value = display->value};
    struct top top;
    bool good;

    memset(graph, 0, sizeof *graph);
    table_init(&builder.table);
    builder.numbers = calloc(samples->locations.group_count + 1, sizeof *builder.numbers);
    good = top_make(&top, samples, display) && builder.numbers;
    if (good) {
        graph->total =
            (double)(samples->compares && top.total.base ? top.total.base : top.total.now);
        good = take_nodes(graph, &top, limits->node_share) && find_edges(&builder) &&
               select_nodes(&builder, limits->nodes) && prune_edges(graph, limits);
        for (size_t i = 0; i < graph->node_count; i++)
            graph->max_flat = fmax(graph->max_flat, graph_size(&graph->nodes[i].flat));
    }
    free(top.rows);
    free(builder.numbers);
    table_free(&builder.table);
    return good;
}

void graph_free(struct graph *graph)
{
    free(graph->nodes);
    free(graph->edges);
    memset(graph, 0, sizeof *graph);
}
