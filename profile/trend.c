#include "profile/trend.h"
#include "base/util.h"

#include <math.h>
#include <string.h>

static const double ERROR_RATE = 0.05;

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

/* Returns how many standard deviations a normal variable exceeds with this probability. */
static double normal_quantile(double probability)
{
    double low = 0, high = 40;

    for (unsigned i = 0; i < 64; i++) {
        double middle = (low + high) / 2;
        *(erfc(middle / M_SQRT2) / 2 > probability ? &low : &high) = middle;
    }
    return high;
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

double trend_error(double variance, size_t tests)
{
    return normal_quantile(ERROR_RATE / 2 / (double)(tests ? tests : 1)) * sqrt(variance);
}

struct trend trend_of(const struct trend_point *points, size_t count, size_t tests)
{
    const struct trend_point *first = &points[0], *last = &points[count - 1];
    double seconds = last->seconds - first->seconds, error;
    struct trend trend = {.bytes = last->bytes - first->bytes};

    trend.variance = fmax(most_variance(first, last), least_variance(first, last));
    error = trend_error(trend.variance, tests);
    trend.low = trend.bytes - error;
    trend.high = trend.bytes + error;
    trend.per_second = seconds > 0 ? trend.bytes / seconds : 0;
    if (trend.low > 0)
        trend.verdict = TREND_GROWS;
    else if (trend.high < 0)
        trend.verdict = TREND_SHRINKS;
    return trend;
}

const char *trend_verdict_name(enum trend_verdict verdict)
{
    static const char *const names[] = {[TREND_UNCLEAR] = "unclear",
                                        [TREND_GROWS] = "grows",
                                        [TREND_STOPPED] = "stopped",
                                        [TREND_SHRINKS] = "shrinks"};

    return names[verdict];
}
