/* The size classes and arenas of a process: tables, JSON and metrics. */
#pragma once

#include "base/json.h"
#include "cli/output/bins_rows.h"

#include <stdio.h>

struct bins_view {
    const struct bins_looks *looks;
    const char *name; /* of the process */
    int pid;
    bool classes, arenas; /* what is shown; both: the classes of each arena */
    size_t rows;          /* of a table; 0: all */
    enum bins_order order;
};

/* Each returns false if out of memory. */
bool bins_view_print(const struct bins_view *view, FILE *out);
/* Adds members to an object that is open. */
bool bins_view_json(const struct bins_view *view, struct json *json);
/* Prints version 0.0.4 of Prometheus' text format. */
bool bins_view_metrics(const struct bins_view *view, FILE *out);
