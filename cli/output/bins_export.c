/* The JSON and the metrics of size classes and arenas. */
#include "cli/output/bins_view.h"
#include "cli/output/usage.h"

#include <inttypes.h>

/* ---- JSON ---- */

static void json_known(struct json *json, const char *name, bool known, uint64_t value)
{
    if (known)
        json_number(json, name, value);
    else
        json_null(json, name);
}

static void class_json(const struct bins_view *view, const struct bins_row *row, struct json *json)
{
    json_item_begin(json);
    json_number(json, "size", row->size);
    json_bool(json, "large", row->large);
    json_number(json, "objects", row->objects);
    json_number(json, "live", row->live);
    if (!row->large) {
        json_number(json, "per_slab", row->per_slab);
        json_number(json, "slabs", row->slabs);
        if (view->looks->last.has_nonfull)
            json_number(json, "nonfull", row->nonfull);
        else
            json_null(json, "nonfull");
        json_number(json, "waste", row->waste);
    }
    json_known(json, "allocations", view->looks->last.has_requests, row->allocations);
    json_known(json, "frees", view->looks->last.has_requests, row->frees);
    json_known(json, "requests", view->looks->last.has_requests, row->requests);
    if (row->rate < 0)
        json_null(json, "requests_per_second");
    else
        json_rounded(json, "requests_per_second", row->rate);
    json_item_end(json);
}

static void classes_json(const struct bins_view *view, const struct bins_rows *rows,
                         struct json *json)
{
    json_list_begin(json, "classes");
    for (size_t i = 0; i < rows->count; i++)
        class_json(view, &rows->list[i], json);
    json_list_end(json);
}

static bool arena_json(const struct bins_view *view, const struct arena_bins *arena,
                       struct json *json)
{
    const struct bins *bins = &view->looks->last;
    struct bins_rows rows;

    if (!bins_rows_make(&rows, view->looks, arena, view->order))
        return false;
    json_item_begin(json);
    json_signed(json, "arena", arena->arena);
    json_text_or_null(json, "name", arena->name);
    json_number(json, "threads", arena->threads);
    json_number(json, "allocated", arena->allocated);
    json_number(json, "waste", rows.waste);
    json_number(json, "active", arena->active);
    json_number(json, "dirty", arena->dirty);
    json_known(json, "muzzy", bins->since_50, arena->muzzy);
    json_known(json, "retained", bins->gauges.has_retained, arena->retained);
    json_number(json, "metadata", arena->metadata);
    json_known(json, "resident", bins->since_50, arena->resident);
    json_known(json, "cached", bins->since_50, arena->cached);
    if (view->classes)
        classes_json(view, &rows, json);
    json_item_end(json);
    bins_rows_free(&rows);
    return true;
}

static bool arenas_json(const struct bins_view *view, struct json *json)
{
    const struct bins *bins = &view->looks->last;
    bool good = true;

    json_list_begin(json, "arenas");
    for (size_t i = 1; i < bins->count && good; i++)
        good = arena_json(view, &bins->arenas[i], json);
    json_list_end(json);
    return good;
}

bool bins_view_json(const struct bins_view *view, struct json *json)
{
    const struct bins *bins = &view->looks->last;
    struct bins_rows rows;

    if (!bins_rows_make(&rows, view->looks, &bins->arenas[0], view->order))
        return false;
    json_text_or_null(json, "version", bins->version);
    json_number(json, "allocated", bins->gauges.allocated);
    json_known(json, "active", !view->looks->memory, bins->gauges.active);
    json_number(json, "waste", rows.waste);
    json_known(json, "cached", bins->since_50, bins->arenas[0].cached);
    json_text(json, "way", view->looks->memory ? "memory" : "call");
    json_bool(json, "since_start", !view->looks->two);
    json_known(json, "interval_ns", view->looks->interval_ns, view->looks->interval_ns);
    json_bool(json, "mixed", bins->mixed);
    if (view->classes)
        classes_json(view, &rows, json);
    bins_rows_free(&rows);
    return !view->arenas || arenas_json(view, json);
}

/* ---- Prometheus ---- */

enum metric_of { OF_OBJECTS, OF_LIVE, OF_WASTE, OF_SLABS, OF_REQUESTS };

static const struct {
    const char *name, *type, *help;
} class_metrics[] = {
    [OF_OBJECTS] = {"class_objects", "gauge", "Objects of a size class that are in use."},
    [OF_LIVE] = {"class_live_bytes", "gauge", "Bytes of these objects."},
    [OF_WASTE] = {"class_waste_bytes", "gauge", "Free space in the slabs of a size class."},
    [OF_SLABS] = {"class_slabs", "gauge", "Slabs of a size class."},
    [OF_REQUESTS] = {"class_requests_total", "counter", "Allocations of a size class."},
};

static uint64_t class_metric(const struct bins_row *row, enum metric_of metric)
{
    const uint64_t values[] = {[OF_OBJECTS] = row->objects,
                               [OF_LIVE] = row->live,
                               [OF_WASTE] = row->waste,
                               [OF_SLABS] = row->slabs,
                               [OF_REQUESTS] = row->requests};
    return values[metric];
}

static void print_metric_head(const char *name, const char *type, const char *help, FILE *out)
{
    fprintf(out, "# HELP jemalloc_%s %s\n# TYPE jemalloc_%s %s\n", name, help, name, type);
}

/* arena: -1: all of them, without a label. */
static void print_metric_sample(const struct bins_view *view, const char *name, int arena,
                                uint64_t size, uint64_t value, FILE *out)
{
    fprintf(out, "jemalloc_%s", name);
    usage_begin_labels(view->pid, view->name, out);
    if (arena >= 0)
        fprintf(out, ",arena=\"%d\"", arena);
    if (size)
        fprintf(out, ",size=\"%" PRIu64 "\"", size);
    fprintf(out, "} %" PRIu64 "\n", value);
}

static bool print_class_samples(const struct bins_view *view, const struct arena_bins *arena,
                                enum metric_of metric, FILE *out)
{
    const bool of_slabs = metric == OF_WASTE || metric == OF_SLABS;
    struct bins_rows rows;

    if (!bins_rows_make(&rows, view->looks, arena, BINS_BY_SIZE))
        return false;
    for (size_t i = 0; i < rows.count; i++)
        if (!of_slabs || !rows.list[i].large)
            print_metric_sample(view, class_metrics[metric].name, arena->arena, rows.list[i].size,
                                class_metric(&rows.list[i], metric), out);
    bins_rows_free(&rows);
    return true;
}

/* All lines of a metric stand together. With arenas, the sum over them is not a sample itself. */
static bool print_class_metrics(const struct bins_view *view, FILE *out)
{
    const struct bins *bins = &view->looks->last;
    const size_t first = view->arenas ? 1 : 0, end = view->arenas ? bins->count : 1;
    bool good = true;

    for (enum metric_of metric = OF_OBJECTS; metric <= OF_REQUESTS; metric++) {
        if (metric == OF_REQUESTS && !bins->has_requests)
            continue;
        print_metric_head(class_metrics[metric].name, class_metrics[metric].type,
                          class_metrics[metric].help, out);
        for (size_t i = first; i < end && good; i++)
            good = print_class_samples(view, &bins->arenas[i], metric, out);
    }
    return good;
}

enum arena_metric { ARENA_THREADS, ARENA_ALLOCATED, ARENA_WASTE, ARENA_ACTIVE, ARENA_DIRTY };

static const struct {
    const char *name, *help;
} arena_metrics[] = {
    [ARENA_THREADS] = {"arena_threads", "Threads that are assigned to an arena."},
    [ARENA_ALLOCATED] = {"arena_allocated_bytes", "Memory of an arena in use by the program."},
    [ARENA_WASTE] = {"arena_waste_bytes", "Free space in the slabs of an arena."},
    [ARENA_ACTIVE] = {"arena_active_bytes", "Pages of an arena that contain allocations."},
    [ARENA_DIRTY] = {"arena_dirty_bytes", "Dirty pages of an arena."},
};

static uint64_t arena_metric_of(const struct arena_bins *arena, enum arena_metric metric)
{
    switch (metric) {
    case ARENA_THREADS:
        return arena->threads;
    case ARENA_ALLOCATED:
        return arena->allocated;
    case ARENA_WASTE:
        return arena_waste(arena);
    case ARENA_ACTIVE:
        return arena->active;
    default:
        return arena->dirty;
    }
}

static void print_arena_metrics(const struct bins_view *view, FILE *out)
{
    const struct bins *bins = &view->looks->last;

    for (enum arena_metric metric = ARENA_THREADS; metric <= ARENA_DIRTY; metric++) {
        print_metric_head(arena_metrics[metric].name, "gauge", arena_metrics[metric].help, out);
        for (size_t i = 1; i < bins->count; i++)
            print_metric_sample(view, arena_metrics[metric].name, bins->arenas[i].arena, 0,
                                arena_metric_of(&bins->arenas[i], metric), out);
    }
}

bool bins_view_metrics(const struct bins_view *view, FILE *out)
{
    if (view->arenas)
        print_arena_metrics(view, out);
    return !view->classes || print_class_metrics(view, out);
}
