/*
 * The gauges that were read from memory, each with its age, beside the counts of
 * the kernel, which are of now. A difference of the two is of no time: it is
 * unknown.
 */
#pragma once

#include "base/json.h"
#include "cli/output/usage.h"
#include "jemalloc/reader/gauges.h"

struct usage_aged {
    struct usage usage; /* its gauges are those of the reading */
    const struct gauges_reading *reading;
    const char *origin; /* added to the name of the process: " (core file)" */
    bool ended;         /* the kernel has no counts any more */
};

enum { USAGE_AGED_TEXT = 160 };

/* "as of the last write of epoch (epoch 17), 3.2 s ago", or why there are none. Returns out. */
const char *usage_aged_text(const struct gauges_reading *reading, char *out, size_t size);

/* Unknown values are shown as ?. */
void usage_aged_print(const struct usage_aged *aged, FILE *out);
/* As usage_print_metrics, with the age in seconds; unknown values have no line. */
void usage_aged_metrics(const struct usage_aged *aged, FILE *out);
/* Adds the members "version", "gauges" and "process"; unknown values are null. */
void usage_aged_json(const struct usage_aged *aged, struct json *json);
