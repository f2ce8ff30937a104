/* Gauges of a process over the last refreshes of top: values, rates and trends. */
#pragma once

#include "run/account.h"

/* The parts of the RSS, it, and what is absent. */
enum gauge {
    GAUGE_IN_USE = ACCOUNT_IN_USE,
    GAUGE_SAMPLING = ACCOUNT_SAMPLING,
    GAUGE_SLABS = ACCOUNT_SLABS,
    GAUGE_PADDING = ACCOUNT_PADDING,
    GAUGE_PAGES = ACCOUNT_PAGES,
    GAUGE_OWN = ACCOUNT_OWN,
    GAUGE_OUTSIDE = ACCOUNT_OUTSIDE,
    GAUGE_RSS = ACCOUNT_PARTS,
    GAUGE_ABSENT,
    GAUGE_COUNT,
};

enum { TRENDS_HISTORY = 16 };

/* Bytes at one time. */
struct gauge_values {
    bool known[GAUGE_COUNT];
    uint64_t bytes[GAUGE_COUNT];
    bool aged;     /* all but the RSS are older than two refreshes, and have no rate */
    uint64_t time; /* nanoseconds */
};

struct trends {
    struct gauge_values past[TRENDS_HISTORY];
    uint64_t rounds;
};

enum direction { TREND_UNKNOWN, TREND_STEADY, TREND_GROWING, TREND_SHRINKING };

void trends_add(struct trends *trends, const struct gauge_values *values);
/* The newest values; NULL: none. */
const struct gauge_values *trends_now(const struct trends *trends);
/* Nanoseconds covered by the rates; 0 with fewer than two refreshes. */
uint64_t trends_window(const struct trends *trends);
/* True if the gauge is known in the whole window, and not aged; only then it has a rate. */
bool trends_has_rate(const struct trends *trends, enum gauge gauge);
/* Bytes per second over the window. */
double trends_rate(const struct trends *trends, enum gauge gauge);
/*
 * A change of less than a thousandth of the value (after few refreshes, a
 * hundredth), or of 64 KiB, is steady.
 */
enum direction trends_direction(const struct trends *trends, enum gauge gauge);

/*
 * Lists the values of a gauge, the oldest first; 0: not known then. Returns their number.
 */
size_t trends_values(const struct trends *trends, enum gauge gauge, uint64_t out[TRENDS_HISTORY]);
