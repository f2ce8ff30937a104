#include "profile/trend.h"

#include <math.h>

struct trend trend_of(const struct trend_point *points, size_t count)
{
    const struct trend_point *first = &points[0], *last = &points[count - 1];
    double error = 2 * sqrt(first->variance + last->variance),
           seconds = last->seconds - first->seconds;
    struct trend trend = {.bytes = last->bytes - first->bytes};

    trend.low = trend.bytes - error;
    trend.high = trend.bytes + error;
    trend.per_second = seconds > 0 ? trend.bytes / seconds : 0;
    if (trend.low > 0)
        trend.verdict = TREND_GROWS;
    else if (trend.high < 0)
        trend.verdict = TREND_SHRINKS;
    return trend;
}
