/*
 * Whether a series of exact numbers grows steadily. The net change of such a series is no
 * estimate; the question is whether the increments are of one sign more than chance makes them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Increments that a verdict needs; and the most of an exact signed-rank test. */
enum { STEADY_LEAST = 5, STEADY_RANKED = 40 };

/* Critical values for series of so many increments. */
struct steady_rule {
    size_t increments;
    double student;                   /* of t, one-sided */
    double ranked[STEADY_RANKED + 1]; /* the least sum of positive ranks, of so many */
};

struct steady {
    double change; /* from the first number to the last */
    double error;  /* half the width of the interval of a change that chance makes */
    double noise;  /* of change: what increments take back from each other */
    double deviation;
    double rises; /* the sum of the increments that are positive */
    double step;  /* the largest increment */
    size_t stepped;
    bool grows; /* change is more than error and noise, and goes on */
    bool once;  /* one step, which is not the last increment, makes nearly all of change */
};

/* tests: series that share the error rates, 0.0005 of t and 0.001 of ranks. */
struct steady_rule steady_rule_make(size_t increments, double tests);

/*
 * seconds ascend, one more than the rule has increments. floor: the least change that counts.
 * increments: space for as many numbers.
 */
struct steady steady_of(const struct steady_rule *rule, const double *seconds, const double *values,
                        double floor, double *increments);
