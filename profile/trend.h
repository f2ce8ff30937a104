/*
 * What a series of estimates says about the memory of one stack: how much it has
 * grown, how much of that the sampling may have caused, and whether it still
 * grows.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The estimate of one profile. */
struct trend_point {
    double seconds;  /* since the first profile */
    double bytes;    /* in use */
    double variance; /* of bytes, from the sampling, as if this were the only profile */
};

enum trend_verdict {
    TREND_UNCLEAR, /* the growth is within the error */
    TREND_GROWS,   /* it has grown, and grows */
    TREND_STOPPED, /* it has grown, but not lately */
    TREND_SHRINKS, /* it has shrunk */
};

struct trend {
    double bytes;     /* growth from the first to the last profile */
    double low, high; /* of the interval that contains the true growth in 95 of 100 cases */
    double per_second;
    enum trend_verdict verdict;
};

/* Computes the trend of at least two points, in order of time; all from one process. */
struct trend trend_of(const struct trend_point *points, size_t count);
