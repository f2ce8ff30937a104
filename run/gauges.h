/* The numbers of a process over the last refreshes of top: values, rates, and where they tend. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The most telling first. */
enum gauge {
    GAUGE_RSS,
    GAUGE_ALLOCATED,
    GAUGE_ACTIVE,
    GAUGE_RESIDENT,
    GAUGE_METADATA,
    GAUGE_MAPPED,
    GAUGE_RETAINED,
    GAUGE_COUNT,
};

enum { GAUGES_HISTORY = 16 };

/* Bytes at one time. */
struct gauge_values {
    bool known[GAUGE_COUNT];
    uint64_t bytes[GAUGE_COUNT];
    uint64_t time; /* nanoseconds */
};

struct gauges {
    struct gauge_values past[GAUGES_HISTORY];
    uint64_t rounds;
};

enum trend { TREND_UNKNOWN, TREND_STEADY, TREND_GROWING, TREND_SHRINKING };

void gauges_add(struct gauges *gauges, const struct gauge_values *values);
/* The newest. NULL: there is none. */
const struct gauge_values *gauges_now(const struct gauges *gauges);
/* Nanoseconds that rates are of; 0: there is one refresh, or none. */
uint64_t gauges_window(const struct gauges *gauges);
/* Has it been known in the whole window? Only then is there a rate. */
bool gauges_has_rate(const struct gauges *gauges, enum gauge gauge);
/* Bytes per second over the window. */
double gauges_rate(const struct gauges *gauges, enum gauge gauge);
/*
 * A thousandth of the value, or 64 KiB, in the window is no trend; of few
 * refreshes a hundredth.
 */
enum trend gauges_trend(const struct gauges *gauges, enum gauge gauge);

/* "allocated" */
const char *gauge_name(enum gauge gauge);
