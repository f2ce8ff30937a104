#include "profile/trend.h"
#include "base/util.h"
#include "profile/trend_fit.h"

#include <math.h>
#include <stdlib.h>

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

/* The most: all objects were freed, and as many allocated. */
static double most_variance(const struct trend_point *first, const struct trend_point *last)
{
    double independent = first->variance + last->variance, accumulated;

    if (!(last->total_variance > first->total_variance))
        return independent;
    accumulated =
        2 * (last->total_variance - first->total_variance) - (last->variance - first->variance);
    return fmin(independent, accumulated);
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
    double error;

    trend.variance = fmax(most_variance(first, last), least_variance(first, last));
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

/* Where even the least error hides the growth: narrows the interval, with Student's quantile. */
static void apply_parts(struct trend *trend, const struct trend_point *points, size_t count,
                        double rate)
{
    double z = normal_quantile(rate / 2), freedom = (double)(count - 2),
           student = z + (pow(z, 3) + z) / (4 * freedom) +
                     (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * freedom * freedom),
           least = least_variance(&points[0], &points[count - 1]),
           variance = fmax(least, variance_of_parts(points, count)),
           error = fmin(student * sqrt(variance), z * sqrt(trend->variance));

    trend->variance = fmin(variance, trend->variance);
    trend->low = trend->bytes - error;
    trend->high = trend->bytes + error;
}

/*
 * Narrows an interval to that of two profiles. Large objects are nearly all sampled, but
 * their number goes up and down all the same.
 */
static void bound_interval(struct trend *trend, const struct trend_point *first,
                           const struct trend_point *last, double rate)
{
    double own = first->own_variance + last->own_variance,
           error = interval_of(fmax(trend->variance, own), rate);

    trend->low = fmax(trend->low, trend->bytes - error);
    trend->high = fmin(trend->high, trend->bytes + error);
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
    bound_interval(trend, first, last, rate);
    trend->variance =
        fmin(fmax(trend->variance, first->own_variance + last->own_variance), square - mean * mean);
    if (stopped > 0.5)
        trend->verdict = TREND_STOPPED;
}

/* Models cost a millisecond: not for what is noise even if nothing was freed. */
static bool may_be_significant(const struct trend_point *points, size_t count, double rate)
{
    const struct trend_point *first = &points[0], *last = &points[count - 1];

    return fabs(last->bytes - first->bytes) > interval_of(least_variance(first, last), rate);
}

struct trend trend_of(const struct trend_point *points, size_t count, size_t tests)
{
    const struct trend_point *first = &points[0], *last = &points[count - 1];
    double seconds = last->seconds - first->seconds,
           rate = ERROR_RATE / (double)(tests ? tests : 1);
    struct trend trend = trend_of_two(first, last, rate);
    struct trend_fit fit = {0};

    if (count >= POINTS_LEAST && !may_be_significant(points, count, rate))
        apply_parts(&trend, points, count, rate);
    else if (count >= POINTS_LEAST && trend_fit(&fit, points, count))
        apply_fit(&trend, &fit, first, last, rate);
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
