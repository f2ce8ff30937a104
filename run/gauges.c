#include "run/gauges.h"

#include <stddef.h>

enum {
    LEAST_TREND = 64 << 10, /* bytes */
    TREND_PART = 1000,      /* of the value */
    FEW_PART = 100,         /* from so few refreshes that one may be by chance */
    FEW = 5,
};

const char *gauge_name(enum gauge gauge)
{
    static const char *const names[] = {
        [GAUGE_RSS] = "RSS",           [GAUGE_ALLOCATED] = "allocated", [GAUGE_ACTIVE] = "active",
        [GAUGE_RESIDENT] = "resident", [GAUGE_METADATA] = "metadata",   [GAUGE_MAPPED] = "mapped",
        [GAUGE_RETAINED] = "retained",
    };

    return names[gauge];
}

static uint64_t count_of(const struct gauges *gauges)
{
    return gauges->rounds < GAUGES_HISTORY ? gauges->rounds : GAUGES_HISTORY;
}

/* Number i of those that there are, from the oldest. */
static const struct gauge_values *at(const struct gauges *gauges, uint64_t i)
{
    return &gauges->past[(gauges->rounds - count_of(gauges) + i) % GAUGES_HISTORY];
}

void gauges_add(struct gauges *gauges, const struct gauge_values *values)
{
    gauges->past[gauges->rounds++ % GAUGES_HISTORY] = *values;
}

const struct gauge_values *gauges_now(const struct gauges *gauges)
{
    return gauges->rounds ? at(gauges, count_of(gauges) - 1) : NULL;
}

uint64_t gauges_window(const struct gauges *gauges)
{
    return gauges->rounds ? gauges_now(gauges)->time - at(gauges, 0)->time : 0;
}

bool gauges_has_rate(const struct gauges *gauges, enum gauge gauge)
{
    for (uint64_t i = 0; i < count_of(gauges); i++)
        if (!at(gauges, i)->known[gauge])
            return false;
    return gauges_window(gauges) > 0;
}

static double growth(const struct gauges *gauges, enum gauge gauge)
{
    return (double)gauges_now(gauges)->bytes[gauge] - (double)at(gauges, 0)->bytes[gauge];
}

double gauges_rate(const struct gauges *gauges, enum gauge gauge)
{
    if (!gauges_has_rate(gauges, gauge))
        return 0;
    return growth(gauges, gauge) / ((double)gauges_window(gauges) / 1e9);
}

static double mean(const struct gauges *gauges, enum gauge gauge, uint64_t from, uint64_t to)
{
    double sum = 0;

    for (uint64_t i = from; i < to; i++)
        sum += (double)at(gauges, i)->bytes[gauge];
    return sum / (double)(to - from);
}

/* Is the newest value beyond all of the older half? */
static bool is_beyond(const struct gauges *gauges, enum gauge gauge, bool above)
{
    uint64_t newest = gauges_now(gauges)->bytes[gauge];

    for (uint64_t i = 0; i < count_of(gauges) / 2; i++) {
        uint64_t older = at(gauges, i)->bytes[gauge];
        if (above ? newest <= older : newest >= older)
            return false;
    }
    return true;
}

/* The ends alone would take every fluctuation for a trend: the halves must agree with them. */
enum trend gauges_trend(const struct gauges *gauges, enum gauge gauge)
{
    uint64_t count = count_of(gauges);
    double least, ends, halves;

    if (!gauges_has_rate(gauges, gauge))
        return TREND_UNKNOWN;
    least = (double)gauges_now(gauges)->bytes[gauge] / (count < FEW ? FEW_PART : TREND_PART);
    least = least < LEAST_TREND ? LEAST_TREND : least;
    ends = growth(gauges, gauge);
    halves = mean(gauges, gauge, count - count / 2, count) - mean(gauges, gauge, 0, count / 2);
    if (ends >= least && halves >= least / 2 && is_beyond(gauges, gauge, true))
        return TREND_GROWING;
    if (-ends >= least && -halves >= least / 2 && is_beyond(gauges, gauge, false))
        return TREND_SHRINKING;
    return TREND_STEADY;
}
