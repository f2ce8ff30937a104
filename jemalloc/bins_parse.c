/*
 * The report of malloc_stats_print("J"), since 4.3 (stats.c at each tag):
 *
 *   {"jemalloc": {"version": "5.3.0-...",
 *     "arenas": {"narenas": 8, "page": 4096, "nbins": 36,
 *                "bin": [{"size": 8, "nregs": 512, "slab_size": 4096}, ...],
 *                "nlextents": 196, "lextent": [{"size": 16384}, ...]},
 *     "stats": {"allocated": ..., "active": ..., ...},
 *     "stats.arenas": {"merged": {"nthreads": 1, ..., "small": {"allocated": ...},
 *                                 "bins": [{"nmalloc": ...}, ...],
 *                                 "lextents": [{"curlextents": 0}, ...]},
 *                      "0": {...}, ...}}}
 *
 * If only one arena is initialized, there is no "merged"; options of malloc_stats_print leave
 * out parts. Up to 4.5 the large classes are in "lruns" and "hchunks".
 */
#include "base/json_check.h"
#include "base/json_read.h"
#include "base/list.h"
#include "jemalloc/bins_layout.h"
#include "jemalloc/faults.h"

#include <string.h>

enum { CLASSES_MAX = 1024, ARENAS_MAX = 4096, LEAF_NAME = 40 };

/* What the arenas have in common: their classes, from "arenas". */
struct classes {
    struct bin bins[CLASSES_MAX];
    size_t bin_count;
    uint64_t sizes[BINS_KINDS][CLASSES_MAX];
    size_t size_count[BINS_KINDS], large_count;
    uint64_t page;
};

struct parsing {
    struct bins *bins;
    size_t capacity;
    struct classes *classes;
    bool out_of_memory;
};

static void take_leaf(const struct bins_leaf *leaves, void *base, const char *name,
                      struct cursor value)
{
    for (const struct bins_leaf *leaf = leaves; leaf->name; leaf++)
        if (strcmp(leaf->name, name) == 0)
            *(uint64_t *)((char *)base + leaf->offset) = json_uint64(value);
}

/* Fills what the tables know of an object; a member that is an object gives names of two parts. */
static void take_leaves(const struct bins_leaf *leaves, void *base, struct cursor object,
                        const char *prefix)
{
    struct cursor key, value;
    char name[LEAF_NAME];

    while (json_next(&object, &key, &value)) {
        size_t used = strlen(prefix);
        memcpy(name, prefix, used + 1);
        if (!cursor_copy(key, name + used, sizeof name - used))
            continue;
        take_leaf(leaves, base, name, value);
        if (*value.at != '{' || used || strlen(name) + 2 > sizeof name)
            continue;
        strcat(name, ".");
        take_leaves(leaves, base, value, name);
    }
}

/* ---- "arenas" ---- */

static void take_classes(struct classes *classes, struct cursor arenas)
{
    struct cursor list, item;

    classes->page = json_find_uint64(arenas, "page");
    if (json_find(arenas, "bin", &list))
        while (classes->bin_count < CLASSES_MAX && json_next(&list, NULL, &item))
            take_leaves(bins_constants, &classes->bins[classes->bin_count++], item, "");
    for (size_t kind = 0; kind < BINS_KINDS; kind++)
        if (json_find(arenas, bins_kinds[kind].sizes_member, &list))
            while (classes->size_count[kind] < CLASSES_MAX && json_next(&list, NULL, &item))
                classes->sizes[kind][classes->size_count[kind]++] = json_find_uint64(item, "size");
    for (size_t kind = 0; kind < BINS_KINDS; kind++)
        classes->large_count += classes->size_count[kind];
}

/* ---- "stats.arenas" ---- */

static void take_small_classes(struct parsing *parsing, struct arena_bins *arena,
                               struct cursor object)
{
    const struct classes *classes = parsing->classes;
    struct cursor list, item, found;
    size_t i = 0;

    arena->bins = calloc(classes->bin_count + 1, sizeof *arena->bins);
    parsing->out_of_memory |= !arena->bins;
    if (!arena->bins || !json_find(object, "bins", &list))
        return;
    memcpy(arena->bins, classes->bins, classes->bin_count * sizeof *arena->bins);
    arena->bin_count = classes->bin_count;
    while (i < classes->bin_count && json_next(&list, NULL, &item)) {
        parsing->bins->has_nonfull |= json_find(item, "nonfull_slabs", &found);
        take_leaves(bins_leaves, &arena->bins[i++], item, "");
    }
}

/* The classes that are in use: the report has no other count of them. */
static void take_large_classes(struct parsing *parsing, struct arena_bins *arena,
                               struct cursor object)
{
    const struct classes *classes = parsing->classes;
    struct cursor list, item;

    arena->large = calloc(classes->large_count + 1, sizeof *arena->large);
    parsing->out_of_memory |= !arena->large;
    for (size_t kind = 0; kind < BINS_KINDS && arena->large; kind++) {
        if (!json_find(object, bins_kinds[kind].members, &list))
            continue;
        for (size_t i = 0; i < classes->size_count[kind] && json_next(&list, NULL, &item); i++) {
            struct large_class large = {.size = classes->sizes[kind][i]};
            take_leaves(bins_large_leaves, &large, item, "");
            if (large.objects)
                arena->large[arena->large_count++] = large;
        }
    }
}

static struct arena_bins *add_arena(struct parsing *parsing, int number)
{
    struct bins *bins = parsing->bins;

    if (bins->count > ARENAS_MAX || !LIST_GROW(bins->arenas, parsing->capacity, bins->count)) {
        parsing->out_of_memory = true;
        return NULL;
    }
    struct arena_bins *arena = &bins->arenas[bins->count++];
    memset(arena, 0, sizeof *arena);
    arena->arena = number;
    bins->initialized += number >= 0;
    return arena;
}

static void take_arena(struct parsing *parsing, struct arena_bins *arena, struct cursor object)
{
    struct bins_counts counts = {.threads = 0};
    struct cursor found;

    if (json_find(object, "name", &found))
        json_copy_text(found, arena->name, sizeof arena->name);
    take_leaves(bins_counts_leaves, &counts, object, "");
    bins_take_counts(arena, &counts, parsing->classes->page);
    parsing->bins->since_50 |= json_find(object, "pmuzzy", &found);
    take_small_classes(parsing, arena, object);
    take_large_classes(parsing, arena, object);
}

/* ---- the sum, if the report has none ---- */

static void add_numbers(struct arena_bins *sum, const struct arena_bins *part)
{
    sum->threads += part->threads;
    sum->allocated += part->allocated;
    sum->active += part->active;
    sum->dirty += part->dirty;
    sum->muzzy += part->muzzy;
    sum->retained += part->retained;
    sum->metadata += part->metadata;
    sum->resident += part->resident;
    sum->cached += part->cached;
    if (part->uptime_ns > sum->uptime_ns)
        sum->uptime_ns = part->uptime_ns;
}

static void add_bin(struct bin *sum, const struct bin *part)
{
    sum->objects += part->objects;
    sum->slabs += part->slabs;
    sum->nonfull += part->nonfull;
    sum->allocations += part->allocations;
    sum->frees += part->frees;
    sum->requests += part->requests;
}

static int compare_size(const void *left, const void *right)
{
    const struct large_class *a = left, *b = right;

    return a->size < b->size ? -1 : a->size > b->size;
}

/* Puts classes of one size together. */
static void merge_large(struct arena_bins *sum)
{
    size_t kept = 0;

    qsort(sum->large, sum->large_count, sizeof *sum->large, compare_size);
    for (size_t i = 0; i < sum->large_count; i++)
        if (kept && sum->large[kept - 1].size == sum->large[i].size)
            sum->large[kept - 1].objects += sum->large[i].objects;
        else
            sum->large[kept++] = sum->large[i];
    sum->large_count = kept;
}

/* Up to one arena is initialized: then there is no "merged"; and it can be left out (option m). */
static void add_arenas(struct parsing *parsing)
{
    const struct bins *bins = parsing->bins;
    const struct classes *classes = parsing->classes;
    struct arena_bins *sum = &bins->arenas[0];
    size_t large = 0;

    for (size_t i = 1; i < bins->count; i++)
        large += bins->arenas[i].large_count;
    sum->bins = calloc(classes->bin_count + 1, sizeof *sum->bins);
    sum->large = calloc(large + 1, sizeof *sum->large);
    parsing->out_of_memory |= !sum->bins || !sum->large;
    if (parsing->out_of_memory)
        return;
    memcpy(sum->bins, classes->bins, classes->bin_count * sizeof *sum->bins);
    sum->bin_count = classes->bin_count;
    for (size_t i = 1; i < bins->count; i++) {
        const struct arena_bins *part = &bins->arenas[i];
        add_numbers(sum, part);
        for (size_t j = 0; j < part->bin_count; j++)
            add_bin(&sum->bins[j], &part->bins[j]);
        memcpy(sum->large + sum->large_count, part->large, part->large_count * sizeof *part->large);
        sum->large_count += part->large_count;
    }
    merge_large(sum);
}

/* ---- the report ---- */

static void take_arenas(struct parsing *parsing, struct cursor object)
{
    struct cursor key, value, merged;
    struct arena_bins *arena = add_arena(parsing, -1);
    const bool has_sum = json_find(object, "merged", &merged);
    uint64_t number;

    if (arena && has_sum)
        take_arena(parsing, arena, merged);
    while (!parsing->out_of_memory && json_next(&object, &key, &value)) {
        if (!cursor_take_decimal(&key, &number) || key.at != key.end || number >= ARENAS_MAX)
            continue;
        arena = add_arena(parsing, (int)number);
        if (arena)
            take_arena(parsing, arena, value);
    }
    if (!has_sum && !parsing->out_of_memory)
        add_arenas(parsing);
}

static void take_report_gauges(struct bins *bins, struct cursor stats)
{
    struct stats_gauges *gauges = &bins->gauges;
    struct cursor found;

    gauges->allocated = json_find_uint64(stats, "allocated");
    gauges->active = json_find_uint64(stats, "active");
    gauges->metadata = json_find_uint64(stats, "metadata");
    gauges->resident = json_find_uint64(stats, "resident");
    gauges->mapped = json_find_uint64(stats, "mapped");
    gauges->has_retained = json_find(stats, "retained", &found);
    gauges->retained = json_find_uint64(stats, "retained");
    gauges->has_pinned = json_find(stats, "pinned", &found);
    gauges->pinned = json_find_uint64(stats, "pinned");
}

static fault_code refuse_report(struct fault *fault, const char *why)
{
    return fault_set(fault, FAULT_STATS_REPORT, 0, "read the report", "%s", why);
}

/* The object of jemalloc, alone or in one of ours. */
static bool find_report(struct cursor text, struct cursor *report)
{
    struct cursor stats;

    if (json_find(text, "jemalloc", report))
        return true;
    return json_find(text, "stats", &stats) && json_find(stats, "jemalloc", report);
}

static fault_code parse_report(struct parsing *parsing, struct cursor report, struct fault *fault)
{
    struct cursor part;

    if (json_find(report, "version", &part))
        json_copy_text(part, parsing->bins->version, sizeof parsing->bins->version);
    if (json_find(report, "stats", &part))
        take_report_gauges(parsing->bins, part);
    if (json_find(report, "arenas", &part))
        take_classes(parsing->classes, part);
    if (!json_find(report, "stats.arenas", &part) || !parsing->classes->bin_count)
        return refuse_report(fault, "it has no size classes: jemalloc was built without "
                                    "statistics, or options have left them out");
    take_arenas(parsing, part);
    if (parsing->out_of_memory)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "read the report", "arenas");
    if (!parsing->bins->arenas[0].bin_count)
        return refuse_report(fault, "it has no counts of size classes");
    return FAULT_NONE;
}

fault_code bins_parse(struct bins *bins, const char *json, size_t len, struct fault *fault)
{
    AUTO_FREE struct classes *classes = calloc(1, sizeof *classes);
    struct parsing parsing = {.bins = bins, .classes = classes};
    struct cursor report;

    memset(bins, 0, sizeof *bins);
    bins->has_requests = true;
    if (!classes)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "read the report", "size classes");
    if (!json_valid(json, len))
        return refuse_report(fault, "it is not JSON (jemalloc has JSON since 4.3)");
    if (!find_report(json_root(json, len), &report))
        return refuse_report(fault, "it has no member \"jemalloc\"");
    return parse_report(&parsing, report, fault);
}
