#include "run/trends.h"

#include <stddef.h>

enum {
    LEAST_TREND = 64 << 10, /* bytes */
    TREND_PART = 1000,      /* of the value */
    FEW_PART = 100,         /* with fewer refreshes a change may be chance */
    FEW = 5,
};

static uint64_t count_of(const struct trends *trends)
{
    return trends->rounds < TRENDS_HISTORY ? trends->rounds : TRENDS_HISTORY;
}

/* Values number i, from the oldest that is kept. */
static const struct gauge_values *at(const struct trends *trends, uint64_t i)
{
    return &trends->past[(trends->rounds - count_of(trends) + i) % TRENDS_HISTORY];
}

void trends_add(struct trends *trends, const struct gauge_values *values)
{
    trends->past[trends->rounds++ % TRENDS_HISTORY] = *values;
}

const struct gauge_values *trends_now(const struct trends *trends)
{
    return trends->rounds ? at(trends, count_of(trends) - 1) : NULL;
}

uint64_t trends_window(const struct trends *trends)
{
    return trends->rounds ? trends_now(trends)->time - at(trends, 0)->time : 0;
}

size_t trends_values(const struct trends *trends, enum gauge gauge, uint64_t out[TRENDS_HISTORY])
{
    for (uint64_t i = 0; i < count_of(trends); i++)
        out[i] = at(trends, i)->known[gauge] ? at(trends, i)->bytes[gauge] : 0;
    return count_of(trends);
}

bool trends_has_rate(const struct trends *trends, enum gauge gauge)
{
    for (uint64_t i = 0; i < count_of(trends); i++)
        if (!at(trends, i)->known[gauge] || (at(trends, i)->aged && gauge != GAUGE_RSS))
            return false;
    return trends_window(trends) > 0;
}

static double growth(const struct trends *trends, enum gauge gauge)
{
    return (double)trends_now(trends)->bytes[gauge] - (double)at(trends, 0)->bytes[gauge];
}

double trends_rate(const struct trends *trends, enum gauge gauge)
{
    if (!trends_has_rate(trends, gauge))
        return 0;
    return growth(trends, gauge) / ((double)trends_window(trends) / 1e9);
}

static double mean_bytes(const struct trends *trends, enum gauge gauge, uint64_t from, uint64_t to)
{
    double sum = 0;

    for (uint64_t i = from; i < to; i++)
        sum += (double)at(trends, i)->bytes[gauge];
    return sum / (double)(to - from);
}

/* True if the newest value is above (or below) all of the older half. */
static bool is_beyond(const struct trends *trends, enum gauge gauge, bool above)
{
    uint64_t newest = trends_now(trends)->bytes[gauge];

    for (uint64_t i = 0; i < count_of(trends) / 2; i++) {
        uint64_t older = at(trends, i)->bytes[gauge];
        if (above ? newest <= older : newest >= older)
            return false;
    }
    return true;
}

/* First and last value alone would show fluctuations as trends: the halves must agree. */
enum direction trends_direction(const struct trends *trends, enum gauge gauge)
{
    uint64_t count = count_of(trends);
    double least, ends, halves;

    if (!trends_has_rate(trends, gauge))
        return TREND_UNKNOWN;
    least = (double)trends_now(trends)->bytes[gauge] / (count < FEW ? FEW_PART : TREND_PART);
    least = least < LEAST_TREND ? LEAST_TREND : least;
    ends = growth(trends, gauge);
    halves = mean_bytes(trends, gauge, count - count / 2, count) -
             mean_bytes(trends, gauge, 0, count / 2);
    if (ends >= least && halves >= least / 2 && is_beyond(trends, gauge, true))
        return TREND_GROWING;
    if (-ends >= least && -halves >= least / 2 && is_beyond(trends, gauge, false))
        return TREND_SHRINKING;
    return TREND_STEADY;
}
