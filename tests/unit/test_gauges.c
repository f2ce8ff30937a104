/* Gauges over time: rates and trends. */
#include "check.h"
#include "run/gauges.h"

#include <math.h>
#include <stddef.h>

#define SECOND 1000000000ull
#define MIB    ((uint64_t)1 << 20)

static void add(struct gauges *gauges, uint64_t rss, bool known, uint64_t allocated)
{
    struct gauge_values values = {.time = gauges->rounds * 2 * SECOND};

    values.known[GAUGE_RSS] = true;
    values.bytes[GAUGE_RSS] = rss;
    values.known[GAUGE_ALLOCATED] = known;
    values.bytes[GAUGE_ALLOCATED] = allocated;
    gauges_add(gauges, &values);
}

static void test_rates(void)
{
    struct gauges gauges = {.rounds = 0};

    CHECK(gauges_window(&gauges) == 0 && !gauges_has_rate(&gauges, GAUGE_RSS));
    CHECK(gauges_now(&gauges) == NULL);
    add(&gauges, 100 * MIB, true, 80 * MIB);
    CHECK(gauges_window(&gauges) == 0 && !gauges_has_rate(&gauges, GAUGE_RSS));
    CHECK(gauges_trend(&gauges, GAUGE_RSS) == TREND_UNKNOWN);
    add(&gauges, 104 * MIB, true, 78 * MIB);
    CHECK(gauges_window(&gauges) == 2 * SECOND);
    CHECK(fabs(gauges_rate(&gauges, GAUGE_RSS) - 2 * (double)MIB) < 1);
    CHECK(fabs(gauges_rate(&gauges, GAUGE_ALLOCATED) + (double)MIB) < 1);
    CHECK(gauges_trend(&gauges, GAUGE_RSS) == TREND_GROWING);
    CHECK(gauges_trend(&gauges, GAUGE_ALLOCATED) == TREND_SHRINKING);
    CHECK(!gauges_has_rate(&gauges, GAUGE_MAPPED) && gauges_rate(&gauges, GAUGE_MAPPED) == 0);
}

/* One refresh without a number, and there is no rate until it has left the window. */
static void test_unknown(void)
{
    struct gauges gauges = {.rounds = 0};

    add(&gauges, MIB, false, 0);
    add(&gauges, MIB, true, MIB);
    CHECK(!gauges_has_rate(&gauges, GAUGE_ALLOCATED));
    for (int i = 0; i < GAUGES_HISTORY; i++)
        add(&gauges, MIB, true, MIB);
    CHECK(gauges_has_rate(&gauges, GAUGE_ALLOCATED));
    CHECK(gauges_window(&gauges) == (GAUGES_HISTORY - 1) * 2 * SECOND);
}

static void test_trend(void)
{
    struct gauges steady = {.rounds = 0}, peak = {.rounds = 0}, slow = {.rounds = 0};

    for (uint64_t i = 0; i < 40; i++) {
        add(&steady, 1000 * MIB + (i % 2) * MIB / 2, true, 30 * MIB);
        add(&peak, i == 39 ? 900 * MIB : 500 * MIB, true, 0);
        add(&slow, 100 * MIB + i * 32 * 1024 + (i % 3) * 8192, true, 0);
    }
    CHECK(gauges_trend(&steady, GAUGE_RSS) == TREND_STEADY);
    CHECK(gauges_trend(&steady, GAUGE_ALLOCATED) == TREND_STEADY);
    CHECK(gauges_trend(&peak, GAUGE_RSS) == TREND_GROWING); /* it may well be one: it is large */
    CHECK(gauges_trend(&slow, GAUGE_RSS) == TREND_GROWING);
    add(&peak, 500 * MIB, true, 0);
    CHECK(gauges_trend(&peak, GAUGE_RSS) == TREND_STEADY);
}

int main(void)
{
    test_rates();
    test_unknown();
    test_trend();
    return check_result();
}
