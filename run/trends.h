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

enum { TRENDS_HISTORY = 16 };

/* Bytes at one time. */
struct gauge_values {
    bool known[GAUGE_COUNT];
    uint64_t bytes[GAUGE_COUNT];
    uint64_t time; /* nanoseconds */
};

struct trends {
    struct gauge_values past[TRENDS_HISTORY];
    uint64_t rounds;
};

enum trend { TREND_UNKNOWN, TREND_STEADY, TREND_GROWING, TREND_SHRINKING };

void trends_add(struct trends *trends, const struct gauge_values *values);
/* The newest. NULL: there is none. */
const struct gauge_values *trends_now(const struct trends *trends);
/* Nanoseconds that rates are of; 0: there is one refresh, or none. */
uint64_t trends_window(const struct trends *trends);
/* Has it been known in the whole window? Only then is there a rate. */
bool trends_has_rate(const struct trends *trends, enum gauge gauge);
/* Bytes per second over the window. */
double trends_rate(const struct trends *trends, enum gauge gauge);
/*
 * A thousandth of the value, or 64 KiB, in the window is no trend; of few
 * refreshes a hundredth.
 */
enum trend trends_direction(const struct trends *trends, enum gauge gauge);

/* "allocated" */
const char *gauge_name(enum gauge gauge);
