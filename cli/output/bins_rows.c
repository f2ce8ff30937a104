#include "cli/output/bins_rows.h"

#include <stdlib.h>

double bins_percent(uint64_t part, uint64_t rest)
{
    double all = (double)part + (double)rest;

    return all > 0 ? 100 * (double)part / all : 0;
}

/* An arena that was destroyed between the looks counts from zero again: then it is unknown. */
static double requests_rate(const struct bins_looks *looks, uint64_t now, uint64_t before)
{
    if (!looks->last.has_requests || !looks->interval_ns || now < before)
        return -1;
    return (double)(now - before) / ((double)looks->interval_ns / 1e9);
}

static void fill_small(struct bins_row *row, const struct bin *bin)
{
    *row = (struct bins_row){.size = bin->size,
                             .objects = bin->objects,
                             .live = bin_live(bin),
                             .per_slab = bin->per_slab,
                             .slabs = bin->slabs,
                             .nonfull = bin->nonfull,
                             .waste = bin_waste(bin),
                             .allocations = bin->allocations,
                             .frees = bin->frees,
                             .requests = bin->requests};
}

static void fill_large(struct bins_row *row, const struct large_class *large)
{
    *row = (struct bins_row){.size = large->size,
                             .objects = large->objects,
                             .live = large_live(large),
                             .large = true,
                             .allocations = large->allocations,
                             .frees = large->frees,
                             .requests = large->requests};
}

/* Large classes are in the list from their first use on, not at the same places in both looks. */
static uint64_t former_large(const struct arena_bins *former, uint64_t size)
{
    for (size_t i = 0; former && i < former->large_count; i++)
        if (former->large[i].size == size)
            return former->large[i].requests;
    return 0;
}

static void add_bins_row(struct bins_rows *rows, const struct bins_row *row)
{
    if (!row->objects && !row->slabs && !row->requests && !row->allocations)
        return;
    rows->objects += row->objects;
    rows->live += row->live;
    rows->waste += row->waste;
    rows->list[rows->count++] = *row;
}

static uint64_t rank_in(const struct bins_row *row, enum bins_order order)
{
    switch (order) {
    case BINS_BY_WASTE:
        return row->waste;
    case BINS_BY_REQUESTS:
        return row->rate > 0 ? (uint64_t)(row->rate * 1000) : 0;
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

static void find_worst(struct bins_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->list[i].waste > (rows->worst ? rows->worst->waste : 0))
            rows->worst = &rows->list[i];
}

bool bins_rows_make(struct bins_rows *rows, const struct bins_looks *looks,
                    const struct arena_bins *arena, enum bins_order order)
{
    const struct arena_bins *former = bins_look_former(looks, arena);
    struct bins_row row;

    *rows = (struct bins_rows){.list = NULL};
    rows->list = calloc(arena->bin_count + arena->large_count + 1, sizeof *rows->list);
    if (!rows->list)
        return false;
    for (size_t i = 0; i < arena->bin_count; i++) {
        const struct bin *bin = &arena->bins[i];
        fill_small(&row, bin);
        row.rate = requests_rate(looks, bin->requests,
                                 former && i < former->bin_count ? former->bins[i].requests : 0);
        add_bins_row(rows, &row);
    }
    for (size_t i = 0; i < arena->large_count; i++) {
        const struct large_class *large = &arena->large[i];
        fill_large(&row, large);
        row.rate = requests_rate(looks, large->requests, former_large(former, large->size));
        add_bins_row(rows, &row);
    }
    qsort_r(rows->list, rows->count, sizeof *rows->list, compare_bins_rows, &order);
    find_worst(rows);
    return true;
}

void bins_rows_free(struct bins_rows *rows)
{
    free(rows->list);
    rows->list = NULL;
}

uint64_t arena_waste(const struct arena_bins *arena)
{
    uint64_t waste = 0;

    for (size_t i = 0; i < arena->bin_count; i++)
        waste += bin_waste(&arena->bins[i]);
    return waste;
}
