#include "jemalloc/bins.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void bins_free(struct bins *bins)
{
    free(bins->list);
    bins->list = NULL;
    bins->count = 0;
}

/* ---- the names of the numbers ---- */

/* Which releases have a name. */
enum { BINS_4 = 1, BINS_5 = 2, BINS_521 = 4, BINS_ALL = BINS_4 | BINS_5 };

struct bins_leaf {
    const char *name; /* NULL: the end of the table */
    enum ctl_type type;
    unsigned where;
    size_t offset; /* of a uint64_t in struct bin */
};

#define BIN(member) offsetof(struct bin, member)

static const struct bins_leaf constants[] = {
    {"size", CTL_SIZE, BINS_ALL, BIN(size)},
    {"nregs", CTL_UNSIGNED, BINS_ALL, BIN(per_slab)},
    {"slab_size", CTL_SIZE, BINS_5, BIN(slab_bytes)},
    {"run_size", CTL_SIZE, BINS_4, BIN(slab_bytes)},
    {.name = NULL},
};

static const struct bins_leaf counts[] = {
    {"curregs", CTL_SIZE, BINS_ALL, BIN(objects)},
    {"curslabs", CTL_SIZE, BINS_5, BIN(slabs)},
    {"nonfull_slabs", CTL_SIZE, BINS_521, BIN(nonfull)},
    {"curruns", CTL_SIZE, BINS_4, BIN(slabs)},
    {.name = NULL},
};

/* ---- lists of reads ---- */

enum {
    NAME_SIZE = 96,
    TREE_SIZE = 48,
    ARENAS_ALL = 4096,
    BINS_MAX = 512,
    LARGE_MAX = 1024, /* classes */
    TRIES = 3
};

/* Reads that wait for the next list of calls, each with the place of its value. */
struct reads {
    struct injection *injection;
    const struct instance *instance;
    struct fault *fault;
    fault_code rc; /* of the first list that failed; later ones are not made */
    struct ctl_op ops[CTL_OPS_MAX];
    char names[CTL_OPS_MAX][NAME_SIZE];
    uint64_t *into[CTL_OPS_MAX]; /* NULL: not needed */
    size_t count;
};

/* A refused read leaves its value: the arena was destroyed, or this version lacks the name. */
static void reads_run(struct reads *reads)
{
    if (reads->count && reads->rc == FAULT_NONE)
        reads->rc = ctl_run(reads->injection, reads->instance, reads->ops, reads->count, NULL,
                            reads->fault);
    for (size_t i = 0; i < reads->count && reads->rc == FAULT_NONE; i++)
        if (reads->ops[i].rc == 0)
            *reads->into[i] = reads->ops[i].value;
    reads->count = 0;
}

static void reads_add(struct reads *reads, enum ctl_type type, uint64_t *into, const char *tree,
                      size_t index, const char *leaf)
{
    if (reads->count == CTL_OPS_MAX)
        reads_run(reads);
    snprintf(reads->names[reads->count], NAME_SIZE, "%s.%zu.%s", tree, index, leaf);
    reads->ops[reads->count] = (struct ctl_op){.name = reads->names[reads->count], .type = type};
    reads->into[reads->count++] = into;
}

/* Adds the reads of those leaves that this release has. */
static void reads_add_leaves(struct reads *reads, unsigned where, const struct bins_leaf *leaves,
                             struct bin *bin, const char *tree, size_t index)
{
    for (const struct bins_leaf *leaf = leaves; leaf->name; leaf++)
        if (leaf->where & where)
            reads_add(reads, leaf->type, (uint64_t *)(void *)((char *)bin + leaf->offset), tree,
                      index, leaf->name);
}

/* ---- what is the same for all arenas ---- */

enum {
    OP_VERSION,
    OP_CONFIG_STATS,
    OP_BINS,
    OP_ARENAS,
    OP_NONFULL, /* whether it has that name */
    OP_LARGE,   /* since 5.0 */
    OP_GAUGES,
    OP_EPOCH = OP_GAUGES + STATS_GAUGE_OPS,
    OP_COUNT
};

struct head {
    uint64_t epoch, bins, arenas;
    unsigned where; /* BINS_4 or BINS_5, and BINS_521 */
    size_t sum;     /* the index of the sum: up to 4.5 the one behind the last arena */
};

/* These depend on nothing but the version; the epoch shows whether others have written it since. */
static const struct ctl_op head_ops[OP_COUNT] = {
    [OP_VERSION] = {.name = "version", .type = CTL_STRING},
    [OP_CONFIG_STATS] = {.name = "config.stats", .type = CTL_BOOL},
    [OP_BINS] = {.name = "arenas.nbins", .type = CTL_UNSIGNED},
    [OP_ARENAS] = {.name = "arenas.narenas", .type = CTL_UNSIGNED},
    [OP_NONFULL] = {.name = "stats.arenas.0.bins.0.nonfull_slabs", .type = CTL_SIZE},
    [OP_LARGE] = {.name = "arenas.nlextents", .type = CTL_UNSIGNED},
    [OP_EPOCH] = {.name = "epoch", .type = CTL_UINT64},
};

static uint64_t op_count(const struct ctl_op *op, uint64_t max)
{
    if (op->rc != 0)
        return 0;
    return op->value < max ? op->value : max;
}

static void head_take(struct head *head, const struct ctl_op *ops)
{
    head->bins = op_count(&ops[OP_BINS], BINS_MAX);
    head->arenas = op_count(&ops[OP_ARENAS], ARENAS_ALL);
    head->epoch = ops[OP_EPOCH].value;
    head->where = op_count(&ops[OP_LARGE], LARGE_MAX) ? BINS_5 : BINS_4;
    head->sum = head->where == BINS_5 ? ARENAS_ALL : head->arenas;
    head->where |= ops[OP_NONFULL].rc == 0 ? BINS_521 : 0;
}

static fault_code head_check(struct bins *bins, const struct ctl_op *ops, struct fault *fault)
{
    struct build build;
    fault_code rc = build_take(&build, ops, OP_BINS, fault);

    memcpy(bins->version, build.text, sizeof bins->version);
    if (rc == FAULT_NONE && ops[OP_CONFIG_STATS].rc == 0 && build.config_stats != FACT_YES)
        rc = fault_set(fault, FAULT_STATS_ABSENT, 0, "read config.stats", "jemalloc %s",
                       build.text[0] ? build.text : "of unknown version");
    if (rc == FAULT_NONE)
        rc = stats_take_gauges(&bins->gauges, ops + OP_GAUGES, fault);
    for (size_t i = OP_BINS; i < OP_NONFULL && rc == FAULT_NONE; i++)
        if (ops[i].rc != 0)
            rc = fault_set(fault, FAULT_CTL_REFUSED, ops[i].rc, "mallctl", "%s", ops[i].name);
    return rc;
}

static fault_code head_read(struct reads *reads, struct bins *bins, struct head *head)
{
    struct ctl_op ops[OP_COUNT];
    fault_code rc;

    memcpy(ops, head_ops, sizeof ops);
    stats_gauge_ops(ops + OP_GAUGES);
    rc = ctl_run(reads->injection, reads->instance, ops, OP_COUNT, NULL, reads->fault);
    if (rc != FAULT_NONE)
        return rc;
    rc = head_check(bins, ops, reads->fault);
    head_take(head, ops);
    ctl_free(ops, OP_COUNT);
    return rc;
}

/* ---- the sum of all arenas ---- */

struct reading {
    struct reads reads;
    struct head head;
};

static fault_code read_sum(struct reading *reading, struct bins *sum)
{
    struct reads *reads = &reading->reads;
    const struct head *head = &reading->head;
    char tree[TREE_SIZE];

    sum->list = calloc(head->bins, sizeof *sum->list);
    if (!sum->list)
        return fault_set(reads->fault, FAULT_INTERNAL, ENOMEM, "read the statistics",
                         "size classes");
    sum->count = head->bins;
    snprintf(tree, TREE_SIZE, "stats.arenas.%zu.bins", head->sum);
    if (sum->since_50)
        reads_add(reads, CTL_SIZE, &sum->cached, "stats.arenas", head->sum, "tcache_bytes");
    for (size_t i = 0; i < sum->count; i++) {
        reads_add_leaves(reads, head->where, constants, &sum->list[i], "arenas.bin", i);
        reads_add_leaves(reads, head->where, counts, &sum->list[i], tree, i);
    }
    reads_run(reads);
    return reads->rc;
}

/* ---- all arenas ---- */

/* jemalloc refuses every name of an arena that is not initialized (ctl.c, stats_arenas_i_index). */
static void count_initialized(struct reading *reading, struct bins *bins)
{
    uint64_t threads[ARENAS_ALL];

    bins->initialized = 0;
    for (size_t i = 0; i < reading->head.arenas; i++) {
        threads[i] = UINT64_MAX;
        reads_add(&reading->reads, CTL_UNSIGNED, &threads[i], "stats.arenas", i, "nthreads");
    }
    reads_run(&reading->reads);
    for (size_t i = 0; i < reading->head.arenas; i++)
        bins->initialized += threads[i] != UINT64_MAX;
}

static fault_code read_bins_once(struct reading *reading, struct bins *bins)
{
    fault_code rc = head_read(&reading->reads, bins, &reading->head);

    if (rc != FAULT_NONE)
        return rc;
    bins->since_50 = reading->head.where & BINS_5;
    bins->has_nonfull = reading->head.where & BINS_521;
    count_initialized(reading, bins);
    return read_sum(reading, bins);
}

/* Another tool, or the program, may write epoch between two lists: then some numbers are newer. */
static bool epoch_stays(struct reading *reading)
{
    struct ctl_op op = {.name = "epoch", .type = CTL_UINT64};
    struct reads *reads = &reading->reads;

    if (reads->rc == FAULT_NONE)
        reads->rc = ctl_run(reads->injection, reads->instance, &op, 1, NULL, reads->fault);
    return reads->rc != FAULT_NONE || op.value == reading->head.epoch;
}

fault_code bins_read(struct injection *injection, const struct instance *instance,
                     struct bins *bins, struct fault *fault)
{
    fault_code rc = FAULT_NONE;
    bool mixed = true;

    memset(bins, 0, sizeof *bins);
    for (int i = 0; i < TRIES && mixed && rc == FAULT_NONE; i++) {
        struct reading reading = {
            .reads = {.injection = injection, .instance = instance, .fault = fault}};
        bins_free(bins);
        rc = read_bins_once(&reading, bins);
        mixed = rc == FAULT_NONE && !epoch_stays(&reading);
        rc = rc == FAULT_NONE ? reading.reads.rc : rc;
    }
    return rc;
}
