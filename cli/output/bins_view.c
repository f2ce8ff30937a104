#include "cli/output/bins_view.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/message.h"
#include "cli/output/usage.h"

#include <inttypes.h>
#include <stdlib.h>

/* A size class that is in use. */
struct bins_row {
    uint64_t size, objects, live; /* live: bytes of the objects */
    bool large;                   /* each object has an extent of its own: the rest is 0 */
    uint64_t per_slab, slabs, nonfull, waste;
};

struct bins_rows {
    struct bins_row list[2 * CLASSES_MAX];
    size_t count;
    uint64_t live, waste;
    const struct bins_row *worst; /* with most waste; NULL: there is none */
};

/* ---- rows ---- */

static void add_bins_row(struct bins_rows *rows, const struct bins_row *row)
{
    if (!row->objects && !row->slabs)
        return;
    rows->live += row->live;
    rows->waste += row->waste;
    rows->list[rows->count++] = *row;
}

static uint64_t rank_in(const struct bins_row *row, enum bins_order order)
{
    switch (order) {
    case BINS_BY_WASTE:
        return row->waste;
    case BINS_BY_SIZE:
        return UINT64_MAX - row->size;
    default:
        return row->live;
    }
}

static int compare_bins_rows(const void *left, const void *right, void *ctx)
{
    const enum bins_order *order = ctx;
    const struct bins_row *a = left, *b = right;
    uint64_t x = rank_in(a, *order), y = rank_in(b, *order);

    if (x != y)
        return x > y ? -1 : 1;
    return a->size < b->size ? -1 : a->size > b->size;
}

static void make_bins_rows(struct bins_rows *rows, const struct bins_view *view)
{
    const struct extent_totals *totals = view->totals;
    enum bins_order order = view->order;
    uint64_t fit;

    rows->count = 0;
    rows->live = rows->waste = 0;
    rows->worst = NULL;
    for (size_t i = 0; i < totals->classes.bins; i++) {
        const struct slab_total *slab = &totals->slab[i];
        struct bins_row row = {.size = totals->classes.list[i].size,
                               .per_slab = totals->classes.list[i].objects,
                               .objects = totals_estimate(totals, slab->objects),
                               .slabs = totals_estimate(totals, slab->slabs),
                               .nonfull = totals_estimate(totals, slab->nonfull)};
        row.live = row.objects * row.size;
        /* 0 if the counts contradict each other. */
        if (!__builtin_mul_overflow(row.slabs, row.per_slab, &fit) && fit >= row.objects)
            row.waste = (fit - row.objects) * row.size;
        add_bins_row(rows, &row);
    }
    /* Sampled objects of a small class have an extent of their own: they are shown as large. */
    for (size_t i = 0; i < totals->classes.count; i++) {
        const struct large_total *large = &totals->large[i];
        add_bins_row(rows, &(struct bins_row){.size = totals->classes.list[i].size,
                                              .large = true,
                                              .objects = totals_estimate(totals, large->objects),
                                              .live = totals_estimate(totals, large->bytes)});
    }
    qsort_r(rows->list, rows->count, sizeof *rows->list, compare_bins_rows, &order);
    for (size_t i = 0; i < rows->count; i++)
        if (rows->list[i].waste > (rows->worst ? rows->worst->waste : 0))
            rows->worst = &rows->list[i];
}

/* ---- the table ---- */

/* Returns the percentage of part in part + rest; 0 if both are 0. */
static double percent_with(uint64_t part, uint64_t rest)
{
    double all = (double)part + (double)rest;

    return all > 0 ? 100 * (double)part / all : 0;
}

static void print_class_row(const struct bins_rows *rows, const struct bins_row *row, FILE *out)
{
    char size[UNITS_TEXT], live[UNITS_TEXT], waste[UNITS_TEXT];

    if (row->large)
        units_bytes((double)row->size, size);
    else
        snprintf(size, sizeof size, "%" PRIu64, row->size);
    fprintf(out, "%8s %9s %5.1f %% %10" PRIu64 " ", size, units_bytes((double)row->live, live),
            percent_with(row->live, rows->live - row->live), row->objects);
    if (row->large)
        fprintf(out, "%9s %5s %8s %7s\n", "-", "", "-", "-");
    else
        fprintf(out, "%9s %3.0f %% %8" PRIu64 " %7" PRIu64 "\n",
                units_bytes((double)row->waste, waste), percent_with(row->waste, row->live),
                row->slabs, row->nonfull);
}

void bins_view_print(const struct bins_view *view, FILE *out)
{
    const struct extents_pass *pass = &view->totals->pass;
    char name[PROCESS_TEXT], version[VERSION_TEXT_MAX], live[UNITS_TEXT], waste[UNITS_TEXT];
    uint64_t other_live = 0, other_waste = 0;
    struct bins_rows rows;
    size_t shown;

    make_bins_rows(&rows, view);
    shown = view->rows && view->rows < rows.count ? view->rows : rows.count;
    fprintf(out, "%s jemalloc %s\n", message_process(view->name, view->pid, name),
            message_clean(view->version, version, sizeof version));
    fprintf(out, "%s live; %s (%.0f %%) free in slabs", units_bytes((double)rows.live, live),
            units_bytes((double)rows.waste, waste), percent_with(rows.waste, rows.live));
    if (rows.worst)
        fprintf(out, ", most in %" PRIu64 "-byte objects", rows.worst->size);

    fprintf(out, "\n\n%8s %9s %7s %10s %9s %5s %8s %7s\n", "size", "live", "share", "objects",
            "waste", "", "slabs", "nonfull");
    for (size_t i = 0; i < shown; i++)
        print_class_row(&rows, &rows.list[i], out);
    for (size_t i = shown; i < rows.count; i++) {
        other_live += rows.list[i].live;
        other_waste += rows.list[i].waste;
    }
    if (shown < rows.count)
        fprintf(out, "and %zu more size classes: %s live, %s waste (--rows 0 shows all)\n",
                rows.count - shown, units_bytes((double)other_live, live),
                units_bytes((double)other_waste, waste));

    fputs("\nwaste: free space in slabs, which hold objects of one size; no purge returns it\n"
          "nonfull: slabs with free space\n",
          out);
    if (pass->share < 1)
        fprintf(out, "estimated from %.0f %% of its memory\n", 100 * pass->share);
    if (pass->unsettled)
        fprintf(out, "without %zu slabs and large objects that changed while they were read\n",
                pass->unsettled);
}

/* ---- JSON ---- */

void bins_view_json(const struct bins_view *view, struct json *json)
{
    struct bins_rows rows;

    make_bins_rows(&rows, view);
    JSON_MEMBERS(json, TEXT_OR_NULL("version", view->version), NUMBER("allocated", rows.live),
                 NUMBER("waste", rows.waste), TEXT("way", "memory"));
    json_list_begin(json, "classes");
    for (const struct bins_row *row = rows.list; row < rows.list + rows.count; row++) {
        const bool small = !row->large;
        JSON_ITEM(json, NUMBER("size", row->size), FLAG("large", row->large),
                  NUMBER("objects", row->objects), NUMBER("live", row->live),
                  WHEN(small, NUMBER("per_slab", row->per_slab)),
                  WHEN(small, NUMBER("slabs", row->slabs)),
                  WHEN(small, NUMBER("nonfull", row->nonfull)),
                  WHEN(small, NUMBER("waste", row->waste)));
    }
    json_list_end(json);
}

/* ---- Prometheus ---- */

struct class_metric {
    const char *name, *help;
    size_t offset; /* in struct bins_row */
    bool of_slabs; /* there is none of a large class */
};

static const struct class_metric class_metrics[] = {
    {"class_objects", "Objects of a size class that are in use.",
     offsetof(struct bins_row, objects), false},
    {"class_live_bytes", "Bytes of these objects.", offsetof(struct bins_row, live), false},
    {"class_waste_bytes", "Free space in the slabs of a size class.",
     offsetof(struct bins_row, waste), true},
    {"class_slabs", "Slabs of a size class.", offsetof(struct bins_row, slabs), true},
};

static void print_class_metric(const struct bins_view *view, const struct bins_rows *rows,
                               const struct class_metric *metric, FILE *out)
{
    usage_begin_metric(metric->name, metric->help, out);
    for (const struct bins_row *row = rows->list; row < rows->list + rows->count; row++) {
        const char *value = (const char *)row + metric->offset;
        if (row->large && metric->of_slabs)
            continue;
        usage_begin_sample(metric->name, view->pid, view->name, out);
        fprintf(out, ",size=\"%" PRIu64 "\"} %" PRIu64 "\n", row->size,
                *(const uint64_t *)(const void *)value);
    }
}

/* All lines of a metric stand together. */
void bins_view_metrics(const struct bins_view *view, FILE *out)
{
    struct bins_view by_size = *view;
    struct bins_rows rows;

    by_size.order = BINS_BY_SIZE;
    make_bins_rows(&rows, &by_size);
    for (size_t i = 0; i < ARRAY_LEN(class_metrics); i++)
        print_class_metric(view, &rows, &class_metrics[i], out);
}
