/* Gauges over time: rates and trends. */
#include "check.h"
#include "run/trends.h"

#include <math.h>
#include <stddef.h>

#define SECOND 1000000000ull
#define MIB    ((uint64_t)1 << 20)

static void add(struct trends *trends, uint64_t rss, bool known, uint64_t allocated)
{
    struct gauge_values values = {.time = trends->rounds * 2 * SECOND};

    values.known[GAUGE_RSS] = true;
    values.bytes[GAUGE_RSS] = rss;
    values.known[GAUGE_IN_USE] = known;
    values.bytes[GAUGE_IN_USE] = allocated;
    trends_add(trends, &values);
}

static void test_rates(void)
{
    struct trends trends = {.rounds = 0};

    CHECK(trends_window(&trends) == 0 && !trends_has_rate(&trends, GAUGE_RSS));
    CHECK(trends_now(&trends) == NULL);
    add(&trends, 100 * MIB, true, 80 * MIB);
    CHECK(trends_window(&trends) == 0 && !trends_has_rate(&trends, GAUGE_RSS));
    CHECK(trends_direction(&trends, GAUGE_RSS) == TREND_UNKNOWN);
    add(&trends, 104 * MIB, true, 78 * MIB);
    CHECK(trends_window(&trends) == 2 * SECOND);
    CHECK(fabs(trends_rate(&trends, GAUGE_RSS) - 2 * (double)MIB) < 1);
    CHECK(fabs(trends_rate(&trends, GAUGE_IN_USE) + (double)MIB) < 1);
    CHECK(trends_direction(&trends, GAUGE_RSS) == TREND_GROWING);
    CHECK(trends_direction(&trends, GAUGE_IN_USE) == TREND_SHRINKING);
    CHECK(!trends_has_rate(&trends, GAUGE_OWN) && trends_rate(&trends, GAUGE_OWN) == 0);
}

/* After one refresh without a number there is no rate until it has left the window. */
static void test_unknown(void)
{
    struct trends trends = {.rounds = 0};

    add(&trends, MIB, false, 0);
    add(&trends, MIB, true, MIB);
    CHECK(!trends_has_rate(&trends, GAUGE_IN_USE));
    for (int i = 0; i < TRENDS_HISTORY; i++)
        add(&trends, MIB, true, MIB);
    CHECK(trends_has_rate(&trends, GAUGE_IN_USE));
    CHECK(trends_window(&trends) == (TRENDS_HISTORY - 1) * 2 * SECOND);
}

static void test_trend(void)
{
    struct trends steady = {.rounds = 0}, peak = {.rounds = 0}, slow = {.rounds = 0};

    for (uint64_t i = 0; i < 40; i++) {
        add(&steady, 1000 * MIB + (i % 2) * MIB / 2, true, 30 * MIB);
        add(&peak, i == 39 ? 900 * MIB : 500 * MIB, true, 0);
        add(&slow, 100 * MIB + i * 32 * 1024 + (i % 3) * 8192, true, 0);
    }
    CHECK(trends_direction(&steady, GAUGE_RSS) == TREND_STEADY);
    CHECK(trends_direction(&steady, GAUGE_IN_USE) == TREND_STEADY);
    CHECK(trends_direction(&peak, GAUGE_RSS) == TREND_GROWING); /* possible: it is large */
    CHECK(trends_direction(&slow, GAUGE_RSS) == TREND_GROWING);
    add(&peak, 500 * MIB, true, 0);
    CHECK(trends_direction(&peak, GAUGE_RSS) == TREND_STEADY);
}

/* Values that stay the same because they are old are not steady: only the RSS has a rate. */
static void test_old_gauges(void)
{
    struct trends trends = {.rounds = 0};

    add(&trends, 100 * MIB, true, 80 * MIB);
    add(&trends, 104 * MIB, true, 80 * MIB);
    CHECK(trends_direction(&trends, GAUGE_IN_USE) == TREND_STEADY);
    trends.past[1].aged = true;
    CHECK(!trends_has_rate(&trends, GAUGE_IN_USE) && trends_has_rate(&trends, GAUGE_RSS));
    CHECK(trends_direction(&trends, GAUGE_IN_USE) == TREND_UNKNOWN);
}

int main(void)
{
    test_old_gauges();
    test_rates();
    test_unknown();
    test_trend();
    return check_result();
}
