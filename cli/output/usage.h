/* What jemalloc counts, set beside what the kernel counts: rows that add up to the RSS. */
#pragma once

#include "attach/target.h"
#include "jemalloc/stats.h"

#include <stdio.h>

struct usage {
    const struct build *build;
    const struct stats_gauges *gauges;
    struct proc_usage process;
    enum usage_source source;
    int pid;
    const char *name;
};

enum { USAGE_ROWS = 5 };

/* One part of the RSS, bytes; some can be negative: what jemalloc counts need not be in memory. */
struct usage_row {
    const char *name, *meaning;
    const char *metric, *help;
    int64_t bytes;
};

/* Fills the rows; their sum is the RSS. */
void usage_rows(const struct usage *usage, struct usage_row rows[USAGE_ROWS]);

void usage_print_table(const struct usage *usage, FILE *out);
/* The text format 0.0.4 of Prometheus. */
void usage_print_metrics(const struct usage *usage, FILE *out);
