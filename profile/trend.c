#include "profile/trend.h"
#include "base/util.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Fits models of what a program does with the memory of one stack to a series of
 * estimates: how it grows (all the time, until it stops, since a time), and how
 * much of it is freed and allocated again, how quickly. Each combination has a
 * growth with a normal error, and a weight: how well it explains the series.
 */

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

/*
 * Fits the models to at least three points. False: out of memory, or numbers for
 * which no model is computable. Free fit->models.
 */
static bool trend_fit(struct trend_fit *fit, const struct trend_point *points, size_t count)
{
    AUTO_FREE struct series *series = calloc(1, sizeof *series);
    AUTO_FREE struct factor *factor = calloc(1, sizeof *factor);

    memset(fit, 0, sizeof *fit);
    if (!series || !factor)
        return false;
    const struct trend_point *first = &points[0], *last = &points[count - 1];
    series->count = count < POINTS ? count : POINTS;
    series->seconds = last->seconds - first->seconds;
    for (size_t i = 0; i < series->count; i++) {
        const struct trend_point *point = &points[i * (count - 1) / (series->count - 1)];
        series->time[i] = series->seconds > 0 ? (point->seconds - first->seconds) / series->seconds
                                              : (double)i / (double)(series->count - 1);
        series->bytes[i] = point->bytes - first->bytes;
    }
    /* Memory may also change in ways of its own, more than the sampling lets it seem to. */
    double mean = 0, bytes = first->bytes + last->bytes, growth = fabs(last->bytes - first->bytes);
    for (size_t i = 0; i < count; i++)
        mean += points[i].variance / (double)count;
    series->churn_most = fmax(mean, 4 * variance_around_line(series));
    series->growth_variance = bytes > 0 ? growth * (first->variance + last->variance) / bytes : 0;
    series->growth_variance += 1e-6 * (growth * growth + series->churn_most) + 1e-9;
    series->allocated = last->total_variance > first->total_variance
                            ? last->total_variance - first->total_variance
                            : -1;
    take_shapes(series);
    fit->models = calloc(series->shape_count * ARRAY_LEN(churn_parts) * ARRAY_LEN(churn_rates),
                         sizeof *fit->models);
    for (size_t i = 0; fit->models && i < ARRAY_LEN(churn_parts); i++)
        for (size_t j = 0; j < ARRAY_LEN(churn_rates); j++) {
            double churn = churn_parts[i] * series->churn_most, rate = churn_rates[j];
            /* More objects than were allocated cannot have been replaced. */
            if ((series->allocated < 0 ||
                 churn * rate <= 1.5 * series->allocated + series->growth_variance) &&
                make_factor(factor, series, churn, rate))
                fit_shapes(fit, series, factor, CAUTION * log(churn_parts[i]));
        }
    /* Drops models that do not matter; turns logarithms into weights. */
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
    return fit->count > 0;
}

/* Returns the growth that is exceeded with this probability. */
static double trend_fit_quantile(const struct trend_fit *fit, double probability)
{
    double low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < fit->count; i++) {
        const struct trend_model *model = &fit->models[i];
        low = fmin(low, model->growth - 10 * sqrt(model->variance));
        high = fmax(high, model->growth + 10 * sqrt(model->variance));
    }
    for (unsigned i = 0; i < 48; i++) {
        double middle = (low + high) / 2, above = 0;
        for (size_t j = 0; j < fit->count; j++) {
            const struct trend_model *model = &fit->models[j];
            above += model->weight * erfc((middle - model->growth) / sqrt(2 * model->variance)) / 2;
        }
        *(above > probability ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

static const double ERROR_RATE = 0.05;
/*
 * Where as much is replaced in the time between two profiles as in the whole time, models
 * miss the growth of simulated series a little more often than they say.
 */
static const double MODEL_CARE = 0.6;
enum { POINTS_LEAST = 4 }; /* with fewer, chance may look like a steady growth */

/* ---- how many tests ---- */

/* A stack of n samples has grown in the clearest case if all are new: 2^-n by chance. */
void trend_tests_add(struct trend_tests *tests, const struct trend_point *points, size_t count)
{
    const struct trend_point *first = &points[0], *last = &points[count - 1];
    double bytes = first->bytes + last->bytes, variance = first->variance + last->variance,
           samples = variance > 0 ? bytes * bytes / variance : INFINITY;
    size_t most = ARRAY_LEN(tests->of_size) - 1;

    if (bytes > 0)
        tests->of_size[samples < (double)most ? (size_t)samples : most]++;
}

size_t trend_tests_count(const struct trend_tests *tests)
{
    size_t counted = 0;

    for (size_t i = ARRAY_LEN(tests->of_size); i-- > 0;) {
        size_t with = counted + tests->of_size[i];
        /* Those of this size could never be significant among so many. */
        if (with && ldexp(1, -(int)i) > ERROR_RATE / 2 / (double)with)
            break;
        counted = with;
    }
    return counted ? counted : 1;
}

/* ---- quantiles ---- */

/*
 * Returns how many standard deviations a normal variable exceeds with this
 * probability, less than a half: Newton's method, from an approximation
 * (Abramowitz and Stegun 26.2.22).
 */
static double normal_quantile(double probability)
{
    double t = sqrt(-2 * log(probability)),
           z = t - (2.30753 + 0.27061 * t) / (1 + t * (0.99229 + 0.04481 * t));

    for (unsigned i = 0; i < 4; i++)
        z += (erfc(z / M_SQRT2) / 2 - probability) * sqrt(2 * M_PI) * exp(z * z / 2);
    return z;
}

/* ---- the trend ---- */

/* The least that the sampling may have caused: only new objects, or only freed ones. */
static double least_variance(const struct trend_point *first, const struct trend_point *last)
{
    return fabs(last->variance - first->variance);
}

/* Returns half of the width of an interval with this error rate. */
static double interval_of(double variance, double rate)
{
    return normal_quantile(rate / 2) * sqrt(variance);
}

double trend_error(double variance, size_t tests)
{
    return interval_of(variance, ERROR_RATE / (double)(tests ? tests : 1));
}

static struct trend trend_of_two(const struct trend_point *first, const struct trend_point *last,
                                 double rate)
{
    struct trend trend = {.bytes = last->bytes - first->bytes};
    double allocated = last->total_variance - first->total_variance;
    double most = first->variance + last->variance, error; /* all freed, and as many allocated */

    if (last->total_variance > first->total_variance)
        most = fmin(most, 2 * allocated - (last->variance - first->variance));
    trend.variance = fmax(most, least_variance(first, last));
    error = interval_of(trend.variance, rate);
    trend.low = trend.bytes - error;
    trend.high = trend.bytes + error;
    return trend;
}

/*
 * Returns the variance of the growth that its parts between the profiles show, as if
 * they were independent: of memory that soon comes back it is too much.
 */
static double variance_of_parts(const struct trend_point *points, size_t count)
{
    double parts = (double)(count - 1), mean = (points[count - 1].bytes - points[0].bytes) / parts,
           sum = 0;

    for (size_t i = 1; i < count; i++)
        sum += pow(points[i].bytes - points[i - 1].bytes - mean, 2);
    return sum * parts / (parts - 1);
}

/*
 * Takes the interval from the models; says since when it has not grown, if so. What two
 * profiles show is not doubted, unless as many objects may come and go by chance: a program
 * whose memory also changes in ways of its own makes the models less certain of the future,
 * but not of what has happened.
 */
static void apply_fit(struct trend *trend, const struct trend_fit *fit,
                      const struct trend_point *first, const struct trend_point *last, double rate)
{
    double stopped = 0, most = 0, mean = 0, square = 0;

    for (size_t i = 0; i < fit->count; i++) {
        const struct trend_model *model = &fit->models[i];
        mean += model->weight * model->growth;
        square += model->weight * (model->variance + model->growth * model->growth);
        if (model->stopped < 0)
            continue;
        stopped += model->weight;
        if (model->weight > most) {
            most = model->weight;
            trend->stopped = model->stopped;
        }
    }
    trend->low = fmin(trend->bytes, trend_fit_quantile(fit, 1 - MODEL_CARE * rate / 2));
    trend->high = fmax(trend->bytes, trend_fit_quantile(fit, MODEL_CARE * rate / 2));
    /*
     * Narrows an interval to that of two profiles. Large objects are nearly all sampled, but
     * their number goes up and down all the same.
     */
    double own = first->own_variance + last->own_variance,
           error = interval_of(fmax(trend->variance, own), rate);
    trend->low = fmax(trend->low, trend->bytes - error);
    trend->high = fmin(trend->high, trend->bytes + error);
    trend->variance =
        fmin(fmax(trend->variance, first->own_variance + last->own_variance), square - mean * mean);
    if (stopped > 0.5)
        trend->verdict = TREND_STOPPED;
}

struct trend trend_of(const struct trend_point *points, size_t count, size_t tests)
{
    const struct trend_point *first = &points[0], *last = &points[count - 1];
    double seconds = last->seconds - first->seconds,
           rate = ERROR_RATE / (double)(tests ? tests : 1);
    struct trend trend = trend_of_two(first, last, rate);
    struct trend_fit fit = {0};

    /* Models cost a millisecond: not for what is noise even if nothing was freed. */
    if (count >= POINTS_LEAST &&
        fabs(last->bytes - first->bytes) <= interval_of(least_variance(first, last), rate)) {
        /*
         * Where even the least error hides the growth: narrows the interval, with Student's
         * quantile.
         */
        double z = normal_quantile(rate / 2), freedom = (double)(count - 2),
               student = z + (pow(z, 3) + z) / (4 * freedom) +
                         (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * freedom * freedom),
               least = least_variance(&points[0], &points[count - 1]),
               variance = fmax(least, variance_of_parts(points, count)),
               error = fmin(student * sqrt(variance), z * sqrt(trend.variance));
        trend.variance = fmin(variance, trend.variance);
        trend.low = trend.bytes - error;
        trend.high = trend.bytes + error;
    } else if (count >= POINTS_LEAST && trend_fit(&fit, points, count)) {
        apply_fit(&trend, &fit, first, last, rate);
    }
    free(fit.models);
    trend.per_second = seconds > 0 ? trend.bytes / seconds : 0;
    if (trend.high < 0)
        trend.verdict = TREND_SHRINKS;
    else if (trend.low <= 0)
        trend.verdict = TREND_UNCLEAR;
    else if (trend.verdict != TREND_STOPPED)
        trend.verdict = TREND_GROWS;
    return trend;
}

const char *trend_verdict_name(enum trend_verdict verdict)
{
    static const char *const names[] = {
        [TREND_UNCLEAR] = "unclear",     [TREND_GROWS] = "grows",
        [TREND_STOPPED] = "stopped",     [TREND_SHRINKS] = "shrinks",
        [TREND_CANDIDATE] = "candidate", [TREND_REPLACED] = "replaced"};

    return names[verdict];
}
