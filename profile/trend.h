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
    double seconds;        /* since the first profile */
    double bytes;          /* in use */
    double variance;       /* of bytes, from the sampling, as if this were the only profile */
    double total_variance; /* of all bytes allocated so far (opt.prof_accum); 0: unknown */
    double own_variance;   /* of bytes, if objects come and go at random, however many of them
                              are sampled; 0: as variance */
};

enum trend_verdict {
    TREND_UNCLEAR, /* the growth is within the error */
    TREND_GROWS,   /* it has grown, and grows */
    TREND_STOPPED, /* it has grown, but not lately */
    TREND_SHRINKS, /* it has shrunk */
    /* Only if more than samples is known (profile/judged.h): */
    TREND_CANDIDATE, /* one of several stacks that may be what grows */
    TREND_REPLACED,  /* its samples rise, as they replace objects that no sample knows */
};

struct trend {
    double bytes;     /* growth from the first to the last profile */
    double low, high; /* of the interval that contains the true growth in 95 of 100 cases */
    double variance;  /* of bytes, from the sampling */
    double per_second;
    double stopped; /* TREND_STOPPED: seconds since the first profile */
    enum trend_verdict verdict;
};

/*
 * How many stacks are tested at once. A stack with so few samples that no
 * outcome would be significant does not count (Tarone 1990).
 */
struct trend_tests {
    size_t of_size[64]; /* stacks by number of samples; the last: or more */
};

/* Adds a stack with these points. */
void trend_tests_add(struct trend_tests *tests, const struct trend_point *points, size_t count);
/* Returns the number of tests that share the error of 5 %; at least 1. */
size_t trend_tests_count(const struct trend_tests *tests);

/*
 * Computes the trend of at least two points, in order of time; all from one
 * process. tests: the interval contains the true growth in 95 of 100 cases for all
 * of so many stacks together.
 */
struct trend trend_of(const struct trend_point *points, size_t count, size_t tests);

/* Returns half of the interval of so many stacks together, for one with this variance. */
double trend_error(double variance, size_t tests);

/* Returns a short name of the verdict: "grows". */
const char *trend_verdict_name(enum trend_verdict verdict);
