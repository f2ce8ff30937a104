#include "profile/trend_fit.h"
#include "base/util.h"

#include <math.h>
#include <string.h>

enum { POINTS = TREND_FIT_POINTS, SHAPES_MAX = 4 * POINTS };

/*
 * Churn: objects are freed at a rate, and as many allocated. Its sampled bytes have
 * the variance `part` of the largest that is possible, and forget what they were
 * within a `memory` of the whole time.
 */
static const double churn_parts[] = {1. / 256, 1. / 64, 1. / 16, 1. / 4, 1};
static const double churn_rates[] = {0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
/*
 * How much more probable much churn is than little, as a power of its part: with 0
 * simulated churn exceeds the interval too often, with 0.5 fast churn hides a leak.
 */
static const double CAUTION = 0.25;

/* How the growth is spread: none before start, all of it at the end. 0 to 1: the whole time. */
struct shape {
    double start, end;
    double prior;
};

struct series {
    double time[POINTS], bytes[POINTS]; /* time: 0 to 1 */
    size_t count;
    double seconds;
    double churn_most, growth_variance, allocated; /* variances; allocated < 0: unknown */
    struct shape shapes[SHAPES_MAX];
    size_t shape_count;
};

/* ---- the series ---- */

static void take_series(struct series *series, const struct trend_point *points, size_t count)
{
    const struct trend_point *first = &points[0], *last = &points[count - 1];

    series->count = count < POINTS ? count : POINTS;
    series->seconds = last->seconds - first->seconds;
    for (size_t i = 0; i < series->count; i++) {
        const struct trend_point *point = &points[i * (count - 1) / (series->count - 1)];
        series->time[i] = series->seconds > 0 ? (point->seconds - first->seconds) / series->seconds
                                              : (double)i / (double)(series->count - 1);
        series->bytes[i] = point->bytes - first->bytes;
    }
}

/* Returns the variance of the points around the straight line through them. */
static double variance_around_line(const struct series *series)
{
    double n = (double)series->count, time = 0, bytes = 0, squares = 0, product = 0, rest = 0;

    for (size_t i = 0; i < series->count; i++) {
        time += series->time[i] / n;
        bytes += series->bytes[i] / n;
    }
    for (size_t i = 0; i < series->count; i++) {
        squares += pow(series->time[i] - time, 2);
        product += (series->time[i] - time) * (series->bytes[i] - bytes);
    }
    for (size_t i = 0; i < series->count; i++)
        rest += pow(series->bytes[i] - bytes - product / squares * (series->time[i] - time), 2);
    return rest / (n - 2);
}

/* Memory may also change in ways of its own, more than the sampling lets it seem to. */
static void take_variances(struct series *series, const struct trend_point *points, size_t count)
{
    const struct trend_point *first = &points[0], *last = &points[count - 1];
    double mean = 0, bytes = first->bytes + last->bytes, growth = fabs(last->bytes - first->bytes);

    for (size_t i = 0; i < count; i++)
        mean += points[i].variance / (double)count;
    series->churn_most = fmax(mean, 4 * variance_around_line(series));
    series->growth_variance = bytes > 0 ? growth * (first->variance + last->variance) / bytes : 0;
    series->growth_variance += 1e-6 * (growth * growth + series->churn_most) + 1e-9;
    series->allocated = last->total_variance > first->total_variance
                            ? last->total_variance - first->total_variance
                            : -1;
}

static void add_shape(struct series *series, double start, double end, double prior)
{
    series->shapes[series->shape_count++] = (struct shape){start, end, prior};
}

/* Growth all the time, until some time, at once, and since some time. */
static void take_shapes(struct series *series)
{
    size_t last = series->count - 1, latest = last * 3 / 4;
    double inner = (double)(last - 1);

    add_shape(series, 0, 1, 0.6);
    for (size_t i = 1; i < last; i++) {
        add_shape(series, 0, series->time[i], 0.2 / inner);
        add_shape(series, series->time[i - 1], series->time[i], 0.1 / inner);
        if (i <= latest)
            add_shape(series, series->time[i], 1, 0.1 / inner);
    }
}

/* ---- one model ---- */

/* A covariance of the points, as its Cholesky factor: lower[i][j], j <= i. */
struct factor {
    double lower[POINTS][POINTS];
    double log_determinant; /* of the factor */
};

static bool make_factor(struct factor *factor, const struct series *series, double churn,
                        double rate)
{
    factor->log_determinant = 0;
    for (size_t i = 0; i < series->count; i++) {
        for (size_t j = 0; j <= i; j++) {
            double sum = churn * exp(-rate * (series->time[i] - series->time[j])) +
                         series->growth_variance * series->time[j];
            sum += i == j ? 1e-6 * (churn + series->growth_variance) : 0;
            for (size_t k = 0; k < j; k++)
                sum -= factor->lower[i][k] * factor->lower[j][k];
            if (i == j && !(sum > 0))
                return false;
            factor->lower[i][j] = i == j ? sqrt(sum) : sum / factor->lower[j][j];
        }
        factor->log_determinant += log(factor->lower[i][i]);
    }
    return true;
}

/* Replaces values by independent ones with a variance of 1. */
static void whiten(const struct factor *factor, double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++)
            values[i] -= factor->lower[i][j] * values[j];
        values[i] /= factor->lower[i][i];
    }
}

static double dot_product(const double *a, const double *b, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Removes the part that has the direction of ones, whose square is `square`. */
static void remove_mean(double *values, const double *ones, double square, size_t count)
{
    double part = dot_product(values, ones, count) / square;

    for (size_t i = 0; i < count; i++)
        values[i] -= part * ones[i];
}

static double shape_at(const struct shape *shape, double time)
{
    if (time >= shape->end)
        return 1;
    return time <= shape->start ? 0 : (time - shape->start) / (shape->end - shape->start);
}

/* Generalized least squares; the weight is still a logarithm: of the restricted likelihood. */
static void fit_shapes(struct trend_fit *fit, const struct series *series,
                       const struct factor *factor, double prior)
{
    double ones[POINTS], bytes[POINTS], values[POINTS], square;
    size_t count = series->count;

    for (size_t i = 0; i < count; i++)
        ones[i] = 1;
    memcpy(bytes, series->bytes, sizeof bytes);
    whiten(factor, ones, count);
    whiten(factor, bytes, count);
    square = dot_product(ones, ones, count);
    remove_mean(bytes, ones, square, count);
    for (size_t i = 0; i < series->shape_count; i++) {
        const struct shape *shape = &series->shapes[i];
        struct trend_model *model = &fit->models[fit->count++];
        for (size_t j = 0; j < count; j++)
            values[j] = shape_at(shape, series->time[j]);
        whiten(factor, values, count);
        remove_mean(values, ones, square, count);
        double precision = dot_product(values, values, count),
               growth = dot_product(values, bytes, count) / precision,
               rest = dot_product(bytes, bytes, count) - growth * growth * precision;
        model->growth = growth;
        model->variance = 1 / precision;
        model->stopped = shape->end < 1 ? shape->end * series->seconds : -1;
        model->weight = prior + log(shape->prior) - factor->log_determinant - log(square) / 2 -
                        log(precision) / 2 - rest / 2;
    }
}

/* ---- all models ---- */

/* Drops models that do not matter; turns logarithms into weights. */
static void weigh_models(struct trend_fit *fit)
{
    double most = -INFINITY, sum = 0;
    size_t kept = 0;

    for (size_t i = 0; i < fit->count; i++)
        most = fmax(most, fit->models[i].weight);
    for (size_t i = 0; i < fit->count; i++) {
        double weight = exp(fit->models[i].weight - most);
        if (!(weight > 1e-9))
            continue;
        fit->models[kept] = fit->models[i];
        fit->models[kept++].weight = weight;
        sum += weight;
    }
    fit->count = kept;
    for (size_t i = 0; i < kept; i++)
        fit->models[i].weight /= sum;
}

/* More objects than were allocated cannot have been replaced. */
static bool churn_is_possible(const struct series *series, double churn, double rate)
{
    return series->allocated < 0 ||
           churn * rate <= 1.5 * series->allocated + series->growth_variance;
}

bool trend_fit(struct trend_fit *fit, const struct trend_point *points, size_t count)
{
    AUTO_FREE struct series *series = calloc(1, sizeof *series);
    AUTO_FREE struct factor *factor = calloc(1, sizeof *factor);

    memset(fit, 0, sizeof *fit);
    if (!series || !factor)
        return false;
    take_series(series, points, count);
    take_variances(series, points, count);
    take_shapes(series);
    fit->models = calloc(series->shape_count * ARRAY_LEN(churn_parts) * ARRAY_LEN(churn_rates),
                         sizeof *fit->models);
    for (size_t i = 0; fit->models && i < ARRAY_LEN(churn_parts); i++)
        for (size_t j = 0; j < ARRAY_LEN(churn_rates); j++) {
            double churn = churn_parts[i] * series->churn_most, rate = churn_rates[j];
            if (churn_is_possible(series, churn, rate) && make_factor(factor, series, churn, rate))
                fit_shapes(fit, series, factor, CAUTION * log(churn_parts[i]));
        }
    weigh_models(fit);
    return fit->count > 0;
}

static double probability_above(const struct trend_fit *fit, double growth)
{
    double sum = 0;

    for (size_t i = 0; i < fit->count; i++) {
        const struct trend_model *model = &fit->models[i];
        sum += model->weight * erfc((growth - model->growth) / sqrt(2 * model->variance)) / 2;
    }
    return sum;
}

double trend_fit_quantile(const struct trend_fit *fit, double probability)
{
    double low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < fit->count; i++) {
        const struct trend_model *model = &fit->models[i];
        low = fmin(low, model->growth - 10 * sqrt(model->variance));
        high = fmax(high, model->growth + 10 * sqrt(model->variance));
    }
    for (unsigned i = 0; i < 48; i++) {
        double middle = (low + high) / 2;
        *(probability_above(fit, middle) > probability ? &low : &high) = middle;
    }
    return (low + high) / 2;
}
