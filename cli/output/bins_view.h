/* The size classes of a process: table, JSON and metrics. */
#pragma once

#include "base/json.h"
#include "jemalloc/extents/totals.h"

#include <stdio.h>

enum bins_order { BINS_BY_LIVE, BINS_BY_WASTE, BINS_BY_SIZE };

struct bins_view {
    const struct extent_totals *totals;
    const char *version; /* of jemalloc; "": unknown */
    const char *name;    /* of the process */
    int pid;
    size_t rows; /* of the table; 0: all */
    enum bins_order order;
};

void bins_view_print(const struct bins_view *view, FILE *out);
/* Adds members to an object that is open. */
void bins_view_json(const struct bins_view *view, struct json *json);
/* Prints version 0.0.4 of Prometheus' text format. */
void bins_view_metrics(const struct bins_view *view, FILE *out);
