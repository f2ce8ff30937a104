/*
 * Several Prometheus expositions as one: all lines of a metric must be one group, with one HELP and
 * one TYPE line, and no metric may have two groups
 * (https://prometheus.io/docs/instrumenting/exposition_formats).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct exposition_metric {
    char *name;
    char *text; /* its lines */
    size_t len;
};

/* Zeroed: empty. */
struct exposition {
    struct exposition_metric *list; /* in the order in which they came first */
    size_t count;
};

/*
 * Adds the exposition of one process, as jeattach writes it: its samples differ from all others in
 * a label. False: out of memory.
 */
bool exposition_add(struct exposition *exposition, const char *text, size_t len);
void exposition_free(struct exposition *exposition);
