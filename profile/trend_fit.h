/*
 * Fits models of what a program does with the memory of one stack to a series of
 * estimates: how it grows (all the time, until it stops, since a time), and how
 * much of it is freed and allocated again, how quickly. Each combination has a
 * growth with a normal error, and a weight: how well it explains the series.
 */
#pragma once

#include "profile/trend.h"

#include <stdbool.h>

enum { TREND_FIT_POINTS = 33 }; /* of longer series, points at even distances are used */

struct trend_model {
    double growth, variance; /* from the first to the last point */
    double weight;           /* of all models together: 1 */
    double stopped;          /* seconds since the first profile; < 0: it still grows */
};

struct trend_fit {
    struct trend_model *models;
    size_t count;
};

/*
 * Fits the models to at least three points. False: out of memory, or numbers for
 * which no model is computable. Free fit->models.
 */
bool trend_fit(struct trend_fit *fit, const struct trend_point *points, size_t count);
/* Returns the growth that is exceeded with this probability. */
double trend_fit_quantile(const struct trend_fit *fit, double probability);
