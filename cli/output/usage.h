/* jemalloc's counts beside those of the kernel, in rows that add up to the RSS. */
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

enum {
    USAGE_ALLOCATED,
    USAGE_FRAGMENTATION,
    USAGE_DIRTY,
    USAGE_METADATA,
    USAGE_PINNED,
    USAGE_OTHER,
    USAGE_ROWS,
};

/* One part of the RSS in bytes. It can be negative: jemalloc also counts non-resident pages. */
struct usage_row {
    const char *name, *meaning; /* NULL: this jemalloc does not count it, and bytes is 0 */
    const char *metric, *help;
    int64_t bytes;
};

/* Fills the rows, in this order; their sum is the RSS. */
void usage_rows(const struct usage *usage, struct usage_row rows[USAGE_ROWS]);

/* Describes stats.resident of this version. */
const char *usage_resident_meaning(const struct stats_gauges *gauges);

void usage_print_table(const struct usage *usage, FILE *out);
/* Prints version 0.0.4 of Prometheus' text format. */
void usage_print_metrics(const struct usage *usage, FILE *out);
/* Prints one gauge of them, jemalloc_NAME_bytes, with its head. */
void usage_print_metric(const struct usage *usage, const char *name, const char *help,
                        int64_t value, FILE *out);
/* Prints the labels of a metric that all have, pid and process, but not the closing brace. */
void usage_begin_labels(int pid, const char *name, FILE *out);
/* Prints only these labels. */
void usage_print_labels(const struct usage *usage, FILE *out);
