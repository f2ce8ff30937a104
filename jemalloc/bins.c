#include "jemalloc/bins.h"
#include "jemalloc/bins_layout.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint64_t bin_waste(const struct bin *bin)
{
    uint64_t fit;

    if (__builtin_mul_overflow(bin->slabs, bin->per_slab, &fit) || fit < bin->objects)
        return 0;
    return (fit - bin->objects) * bin->size;
}

uint64_t bin_live(const struct bin *bin)
{
    return bin->objects * bin->size;
}

uint64_t large_live(const struct large_class *large)
{
    return large->bytes ? large->bytes : large->objects * large->size;
}

void bins_free(struct bins *bins)
{
    for (size_t i = 0; i < bins->count; i++) {
        free(bins->arenas[i].bins);
        free(bins->arenas[i].large);
    }
    free(bins->arenas);
    bins->arenas = NULL;
    bins->count = 0;
}

/* ---- lists of reads ---- */

enum {
    NAME_SIZE = 96,
    TREE_SIZE = 48,
    ARENAS_ALL = 4096,
    BINS_MAX = 512,
    LARGE_MAX = 1024,
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
                             void *base, const char *tree, size_t index)
{
    for (const struct bins_leaf *leaf = leaves; leaf->name; leaf++)
        if (leaf->where & where)
            reads_add(reads, leaf->type, (uint64_t *)((char *)base + leaf->offset), tree, index,
                      leaf->name);
}

/* ---- what is the same for all arenas ---- */

enum {
    OP_VERSION,
    OP_CONFIG_STATS,
    OP_BINS,
    OP_ARENAS,
    OP_PAGE,
    OP_NONFULL, /* whether it has that name */
    OP_LARGE,   /* one for each kind */
    OP_GAUGES = OP_LARGE + BINS_KINDS,
    OP_EPOCH = OP_GAUGES + STATS_GAUGE_OPS,
    OP_COUNT
};

struct head {
    uint64_t epoch, bins, arenas, page;
    uint64_t large[BINS_KINDS]; /* classes of each kind; 0: this release has no such */
    unsigned where;             /* BINS_4 or BINS_5, and BINS_521 */
    size_t sum;                 /* the index of the sum: up to 4.5 the one behind the last arena */
};

/* These depend on nothing but the version; the epoch shows whether others have written it since. */
static const struct ctl_op head_ops[OP_COUNT] = {
    [OP_VERSION] = {.name = "version", .type = CTL_STRING},
    [OP_CONFIG_STATS] = {.name = "config.stats", .type = CTL_BOOL},
    [OP_BINS] = {.name = "arenas.nbins", .type = CTL_UNSIGNED},
    [OP_ARENAS] = {.name = "arenas.narenas", .type = CTL_UNSIGNED},
    [OP_PAGE] = {.name = "arenas.page", .type = CTL_SIZE},
    [OP_NONFULL] = {.name = "stats.arenas.0.bins.0.nonfull_slabs", .type = CTL_SIZE},
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
    head->page = op_count(&ops[OP_PAGE], UINT32_MAX);
    head->epoch = ops[OP_EPOCH].value;
    for (size_t i = 0; i < BINS_KINDS; i++)
        head->large[i] = op_count(&ops[OP_LARGE + i], LARGE_MAX);
    head->where = head->large[BINS_LEXTENTS] ? BINS_5 : BINS_4;
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
    for (size_t i = 0; i < BINS_KINDS; i++)
        ops[OP_LARGE + i] = (struct ctl_op){.name = bins_kinds[i].count, .type = CTL_UNSIGNED};
    stats_gauge_ops(ops + OP_GAUGES);
    rc = ctl_run(reads->injection, reads->instance, ops, OP_COUNT, NULL, reads->fault);
    if (rc != FAULT_NONE)
        return rc;
    rc = head_check(bins, ops, reads->fault);
    head_take(head, ops);
    ctl_free(ops, OP_COUNT);
    return rc;
}

/* ---- one arena, or the sum ---- */

/* A large class that is in use, or was: where its numbers are. */
struct used_class {
    size_t kind, index;
};

struct reading {
    struct reads reads;
    struct head head;
    struct used_class *used; /* as the large classes of each arena */
    size_t used_count;
};

static size_t arena_index(const struct reading *reading, const struct arena_bins *arena)
{
    return arena->arena < 0 ? reading->head.sum : (size_t)arena->arena;
}

static void part_name(const struct reading *reading, const struct arena_bins *arena,
                      const char *part, char tree[TREE_SIZE])
{
    snprintf(tree, TREE_SIZE, "stats.arenas.%zu.%s", arena_index(reading, arena), part);
}

static void read_arena_counts(struct reading *reading, struct arena_bins *arena)
{
    struct bins_counts counts = {.threads = 0};

    reads_add_leaves(&reading->reads, reading->head.where, bins_counts_leaves, &counts,
                     "stats.arenas", arena_index(reading, arena));
    reads_run(&reading->reads);
    bins_take_counts(arena, &counts, reading->head.page);
}

/* A class that the sum never had is not read for an arena. */
static void read_small(struct reading *reading, struct arena_bins *arena,
                       const struct arena_bins *sum)
{
    const unsigned where = reading->head.where;
    char tree[TREE_SIZE];

    part_name(reading, arena, "bins", tree);
    for (size_t i = 0; i < arena->bin_count; i++) {
        struct bin *bin = &arena->bins[i];
        if (arena == sum)
            reads_add_leaves(&reading->reads, where, bins_constants, bin, "arenas.bin", i);
        else
            *bin = (struct bin){.size = sum->bins[i].size,
                                .per_slab = sum->bins[i].per_slab,
                                .slab_bytes = sum->bins[i].slab_bytes};
        if (arena == sum || sum->bins[i].allocations || sum->bins[i].slabs)
            reads_add_leaves(&reading->reads, where, bins_leaves, bin, tree, i);
    }
    reads_run(&reading->reads);
}

/* Finds the large classes that the process has ever used: some 30 of 196 or more. */
static bool find_used(struct reading *reading, const struct arena_bins *sum)
{
    AUTO_FREE uint64_t *counts = calloc(BINS_KINDS * LARGE_MAX, sizeof *counts);
    char tree[TREE_SIZE];

    reading->used = calloc(BINS_KINDS * LARGE_MAX, sizeof *reading->used);
    if (!counts || !reading->used)
        return false;
    for (size_t kind = 0; kind < BINS_KINDS; kind++) {
        part_name(reading, sum, bins_kinds[kind].members, tree);
        for (size_t i = 0; i < reading->head.large[kind]; i++)
            reads_add(&reading->reads, CTL_UINT64, &counts[kind * LARGE_MAX + i], tree, i,
                      "nmalloc");
        reads_run(&reading->reads);
    }
    for (size_t i = 0; i < BINS_KINDS * LARGE_MAX; i++)
        if (counts[i])
            reading->used[reading->used_count++] =
                (struct used_class){i / LARGE_MAX, i % LARGE_MAX};
    return true;
}

static void read_large(struct reading *reading, struct arena_bins *arena,
                       const struct arena_bins *sum)
{
    char tree[TREE_SIZE];

    for (size_t i = 0; i < arena->large_count; i++) {
        const struct used_class *used = &reading->used[i];
        const struct bins_kind *kind = &bins_kinds[used->kind];
        if (arena == sum)
            reads_add(&reading->reads, CTL_SIZE, &arena->large[i].size, kind->sizes, used->index,
                      "size");
        else
            arena->large[i].size = sum->large[i].size;
        part_name(reading, arena, kind->members, tree);
        reads_add_leaves(&reading->reads, reading->head.where, bins_large_leaves, &arena->large[i],
                         tree, used->index);
    }
    reads_run(&reading->reads);
}

static fault_code read_arena(struct reading *reading, struct arena_bins *arena,
                             const struct arena_bins *sum)
{
    arena->bins = calloc(reading->head.bins, sizeof *arena->bins);
    arena->bin_count = arena->bins ? reading->head.bins : 0;
    if (arena == sum && !find_used(reading, sum))
        return fault_set(reading->reads.fault, FAULT_INTERNAL, ENOMEM, "read the statistics",
                         "size classes");
    arena->large = calloc(reading->used_count + 1, sizeof *arena->large);
    arena->large_count = arena->large ? reading->used_count : 0;
    if (!arena->bins || !arena->large)
        return fault_set(reading->reads.fault, FAULT_INTERNAL, ENOMEM, "read the statistics",
                         "size classes");
    read_arena_counts(reading, arena);
    read_small(reading, arena, sum);
    read_large(reading, arena, sum);
    return reading->reads.rc;
}

/* ---- each arena ---- */

enum { NAMES_AT_ONCE = 16, NOT_INITIALIZED = -1 };

/* arena.<i>.name copies its text into a buffer of the caller, for which a list has little space. */
static void read_names(struct reading *reading, struct arena_bins *arenas, size_t count)
{
    struct ctl_op ops[NAMES_AT_ONCE];
    char names[NAMES_AT_ONCE][NAME_SIZE];
    struct reads *reads = &reading->reads;

    if (reads->rc != FAULT_NONE)
        return;
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], NAME_SIZE, "arena.%d.name", arenas[i].arena);
        ops[i] = (struct ctl_op){.name = names[i], .type = CTL_STRING, .into_buffer = true};
    }
    reads->rc = ctl_run(reads->injection, reads->instance, ops, count, NULL, reads->fault);
    if (reads->rc != FAULT_NONE)
        return;
    for (size_t i = 0; i < count; i++)
        if (ops[i].rc == 0 && ops[i].text)
            snprintf(arenas[i].name, ARENA_NAME_SIZE, "%s", ops[i].text);
    ctl_free(ops, count);
}

static void read_all_names(struct reading *reading, struct bins *bins)
{
    for (size_t i = 1; i < bins->count; i += NAMES_AT_ONCE)
        read_names(reading, &bins->arenas[i],
                   bins->count - i < NAMES_AT_ONCE ? bins->count - i : NAMES_AT_ONCE);
}

/* jemalloc refuses every name of an arena that is not initialized (ctl.c, stats_arenas_i_index). */
static void list_initialized(struct reading *reading, bool each, struct bins *bins)
{
    uint64_t threads[ARENAS_ALL];

    for (size_t i = 0; i < reading->head.arenas; i++) {
        threads[i] = UINT64_MAX;
        reads_add(&reading->reads, CTL_UNSIGNED, &threads[i], "stats.arenas", i, "nthreads");
    }
    reads_run(&reading->reads);
    for (size_t i = 0; i < reading->head.arenas; i++)
        if (threads[i] != UINT64_MAX) {
            bins->initialized++;
            if (each)
                bins->arenas[bins->count++].arena = (int)i;
        }
}

static fault_code read_bins_once(struct reading *reading, bool each, struct bins *bins)
{
    fault_code rc = head_read(&reading->reads, bins, &reading->head);

    if (rc != FAULT_NONE)
        return rc;
    bins->arenas = calloc(1 + (each ? reading->head.arenas : 0), sizeof *bins->arenas);
    if (!bins->arenas)
        return fault_set(reading->reads.fault, FAULT_INTERNAL, ENOMEM, "read the statistics",
                         "arenas");
    bins->arenas[0].arena = -1;
    bins->count = 1;
    bins->since_50 = reading->head.where & BINS_5;
    bins->has_nonfull = reading->head.where & BINS_521;
    bins->has_requests = true;
    bins->has_large_counts = true;
    list_initialized(reading, each, bins);
    for (size_t i = 0; i < bins->count && rc == FAULT_NONE; i++)
        rc = read_arena(reading, &bins->arenas[i], &bins->arenas[0]);
    if (each && bins->since_50)
        read_all_names(reading, bins);
    return reading->reads.rc;
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

fault_code bins_read(struct injection *injection, const struct instance *instance, bool each,
                     struct bins *bins, struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    memset(bins, 0, sizeof *bins);
    bins->mixed = true;
    for (int i = 0; i < TRIES && bins->mixed && rc == FAULT_NONE; i++) {
        struct reading reading = {
            .reads = {.injection = injection, .instance = instance, .fault = fault}};
        bins_free(bins);
        bins->time_ns = clock_now();
        rc = read_bins_once(&reading, each, bins);
        bins->mixed = rc == FAULT_NONE && !epoch_stays(&reading);
        rc = rc == FAULT_NONE ? reading.reads.rc : rc;
        free(reading.used);
    }
    return rc;
}
