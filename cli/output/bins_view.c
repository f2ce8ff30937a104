#include "cli/output/bins_view.h"
#include "base/units.h"
#include "cli/message.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RATE_TEXT = 24 };

/* ---- the answer ---- */

static void print_worst(const struct bins_rows *rows, FILE *out)
{
    char waste[UNITS_TEXT];

    fprintf(out, "; %s (%.0f %%) free in slabs", units_bytes((double)rows->waste, waste),
            bins_percent(rows->waste, rows->live));
    if (rows->worst)
        fprintf(out, ", most in %" PRIu64 "-byte objects", rows->worst->size);
}

static void print_bins_answer(const struct bins_view *view, const struct bins_rows *rows, FILE *out)
{
    const struct bins *bins = &view->looks->last;
    char name[64], version[VERSION_TEXT_MAX], live[UNITS_TEXT];

    fprintf(out, "%s[%d] jemalloc %s\n%s live", message_clean(view->name, name, sizeof name),
            view->pid, message_clean(bins->version, version, sizeof version),
            units_bytes((double)bins->gauges.allocated, live));
    print_worst(rows, out);
    fputc('\n', out);
}

/* ---- size classes ---- */

static const char *requests_text(double rate, char out[RATE_TEXT])
{
    if (rate < 0)
        snprintf(out, RATE_TEXT, "?");
    else
        snprintf(out, RATE_TEXT, "%.*f", rate > 0 && rate < 10 ? 1 : 0, rate);
    return out;
}

static void print_class_head(FILE *out)
{
    fprintf(out, "\n%8s %9s %7s %10s %9s %5s %8s %7s %10s\n", "size", "live", "share", "objects",
            "waste", "", "slabs", "nonfull", "requests/s");
}

static void print_small(const struct bins_view *view, const struct bins_row *row, FILE *out)
{
    char waste[UNITS_TEXT], nonfull[24] = "?";

    if (view->looks->last.has_nonfull)
        snprintf(nonfull, sizeof nonfull, "%" PRIu64, row->nonfull);
    fprintf(out, "%9s %3.0f %% %8" PRIu64 " %7s", units_bytes((double)row->waste, waste),
            bins_percent(row->waste, row->live), row->slabs, nonfull);
}

static void print_class_row(const struct bins_view *view, const struct bins_rows *rows,
                            const struct bins_row *row, FILE *out)
{
    char size[UNITS_TEXT], live[UNITS_TEXT], rate[RATE_TEXT];

    if (row->large)
        units_bytes((double)row->size, size);
    else
        snprintf(size, sizeof size, "%" PRIu64, row->size);
    fprintf(out, "%8s %9s %5.1f %% %10" PRIu64 " ", size, units_bytes((double)row->live, live),
            bins_percent(row->live, rows->live - row->live), row->objects);
    if (row->large)
        fprintf(out, "%9s %5s %8s %7s", "-", "", "-", "-");
    else
        print_small(view, row, out);
    fprintf(out, " %10s\n", requests_text(row->rate, rate));
}

static void print_other_classes(const struct bins_rows *rows, size_t shown, FILE *out)
{
    char live_text[UNITS_TEXT], waste_text[UNITS_TEXT];
    uint64_t live = 0, waste = 0;

    for (size_t i = shown; i < rows->count; i++) {
        live += rows->list[i].live;
        waste += rows->list[i].waste;
    }
    fprintf(out, "and %zu more size classes: %s live, %s waste (--rows 0 shows all)\n",
            rows->count - shown, units_bytes((double)live, live_text),
            units_bytes((double)waste, waste_text));
}

static size_t shown_of(const struct bins_view *view, size_t count)
{
    return view->rows && view->rows < count ? view->rows : count;
}

static void print_class_rows(const struct bins_view *view, const struct bins_rows *rows, FILE *out)
{
    size_t shown = shown_of(view, rows->count);

    print_class_head(out);
    for (size_t i = 0; i < shown; i++)
        print_class_row(view, rows, &rows->list[i], out);
    if (shown < rows->count)
        print_other_classes(rows, shown, out);
}

static bool print_classes_of(const struct bins_view *view, const struct arena_bins *arena,
                             FILE *out)
{
    struct bins_rows rows;
    char name[ARENA_NAME_SIZE + 3];

    if (!bins_rows_make(&rows, view->looks, arena, view->order))
        return false;
    fprintf(out, "\narena %d%s%s:\n", arena->arena, *arena->name ? " " : "",
            message_clean(arena->name, name, sizeof name));
    print_class_rows(view, &rows, out);
    bins_rows_free(&rows);
    return true;
}

/* ---- arenas ---- */

static void print_arena_head(FILE *out)
{
    fprintf(out, "\n%5s %7s %9s %9s %9s %9s %9s %9s %9s %9s  %s\n", "arena", "threads", "allocated",
            "waste", "active", "dirty", "muzzy", "retained", "metadata", "resident", "name");
}

static void print_bytes(bool known, uint64_t bytes, FILE *out)
{
    char text[UNITS_TEXT];

    fprintf(out, " %9s", known ? units_bytes((double)bytes, text) : "?");
}

static void print_arena(const struct bins *bins, const struct arena_bins *arena, FILE *out)
{
    char name[ARENA_NAME_SIZE + 3];

    if (arena->arena < 0)
        fprintf(out, "%5s", "all");
    else
        fprintf(out, "%5d", arena->arena);
    fprintf(out, " %7" PRIu64, arena->threads);
    print_bytes(true, arena->allocated, out);
    print_bytes(true, arena_waste(arena), out);
    print_bytes(true, arena->active, out);
    print_bytes(true, arena->dirty, out);
    print_bytes(bins->since_50, arena->muzzy, out);
    print_bytes(bins->gauges.has_retained, arena->retained, out);
    print_bytes(true, arena->metadata, out);
    print_bytes(bins->since_50, arena->resident, out);
    fprintf(out, "%s%s\n", *arena->name ? "  " : "", message_clean(arena->name, name, sizeof name));
}

static uint64_t arena_rank(const struct arena_bins *arena, enum bins_order order)
{
    return order == BINS_BY_WASTE ? arena_waste(arena) : arena->allocated;
}

static int compare_arenas(const void *left, const void *right, void *ctx)
{
    const struct arena_bins *const *a = left, *const *b = right;
    const struct bins_view *view = ctx;
    uint64_t x = arena_rank(*a, view->order), y = arena_rank(*b, view->order);

    if (x != y)
        return x > y ? -1 : 1;
    return (*a)->arena < (*b)->arena ? -1 : 1;
}

static bool print_arenas(const struct bins_view *view, FILE *out)
{
    const struct bins *bins = &view->looks->last;
    const size_t count = bins->count - 1, shown = shown_of(view, count);
    AUTO_FREE const struct arena_bins **order = calloc(count + 1, sizeof *order);

    if (!order)
        return false;
    for (size_t i = 0; i < count; i++)
        order[i] = &bins->arenas[i + 1];
    qsort_r(order, count, sizeof *order, compare_arenas, (void *)view);
    print_arena_head(out);
    print_arena(bins, &bins->arenas[0], out);
    for (size_t i = 0; i < shown; i++)
        print_arena(bins, order[i], out);
    if (shown < count)
        fprintf(out, "and %zu more arenas (--rows 0 shows all)\n", count - shown);
    return true;
}

/* ---- what is to be known of them ---- */

static void print_interval(const struct bins_looks *looks, FILE *out)
{
    char time[UNITS_TEXT];

    if (looks->memory)
        fprintf(out, "requests/s: not known without a call; use --call\n");
    if (!looks->interval_ns)
        return;
    units_duration(looks->interval_ns, time);
    if (looks->two)
        fprintf(out, "requests/s: allocations of that size, in the last %s\n", time);
    else
        fprintf(out,
                "requests/s: on average since the start, %s ago (-d 5s: of 5 seconds from now)\n",
                time);
}

static void print_bins_notes(const struct bins_view *view, const struct bins_rows *rows, FILE *out)
{
    const struct bins *bins = &view->looks->last;
    char text[UNITS_TEXT];

    fputc('\n', out);
    fprintf(out,
            "waste: free space in slabs, which hold objects of one size; no purge returns it\n");
    if (view->classes)
        fprintf(out, "nonfull: slabs with free space\n");
    if (view->classes)
        print_interval(view->looks, out);
    if (bins->since_50 && bins->arenas[0].cached)
        fprintf(out, "live includes %s that threads keep for their next allocations (tcache)\n",
                units_bytes((double)bins->arenas[0].cached, text));
    if (rows->live > bins->gauges.allocated + (1 << 20))
        fprintf(out,
                "large objects are shown with the size of their class; theirs is smaller, by "
                "%s in total\n",
                units_bytes((double)(rows->live - bins->gauges.allocated), text));
    if (view->looks->memory && view->looks->share < 1)
        fprintf(out, "estimated from %.0f %% of its memory\n", 100 * view->looks->share);
    if (view->looks->unsettled)
        fprintf(out, "without %zu slabs and large objects that changed while they were read\n",
                view->looks->unsettled);
    if (bins->mixed)
        fprintf(out, "another program collects the statistics all the time: the numbers are not "
                     "of one moment\n");
}

bool bins_view_print(const struct bins_view *view, FILE *out)
{
    const struct bins *bins = &view->looks->last;
    struct bins_rows rows;
    bool good = true;

    if (!bins_rows_make(&rows, view->looks, &bins->arenas[0], view->order))
        return false;
    print_bins_answer(view, &rows, out);
    if (view->arenas)
        good = print_arenas(view, out);
    else
        print_class_rows(view, &rows, out);
    for (size_t i = 1; view->classes && i < bins->count && good; i++)
        good = print_classes_of(view, &bins->arenas[i], out);
    print_bins_notes(view, &rows, out);
    bins_rows_free(&rows);
    return good;
}
