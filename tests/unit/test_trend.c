/*
 * Trends of series that a simulation of the sampling makes: a leak is called a leak, churn is
 * not, a cache that has stopped growing is said to have stopped, and the intervals contain the
 * true growth as often as they say. The numbers are random, but always the same ones.
 */
#include "base/util.h"
#include "check.h"
#include "profile/trend.h"

#include <math.h>
#include <string.h>

enum { RUNS = 60, POINTS = 17 };

static uint64_t state = 88172645463325252u;

/* xorshift64: between 0 and 1. */
static double next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

/* A Poisson number, by the times between the events. */
static double count_events(double mean)
{
    double events = -1, time = 0;

    while (time < mean) {
        time -= log(next_random());
        events++;
    }
    return events < 0 ? 0 : events;
}

static double count_survivors(double objects, double probability)
{
    double left = 0;

    for (; objects >= 1; objects--)
        left += next_random() < probability;
    return left;
}

/* Numbers of samples, each of one byte with a variance of one. */
struct scene {
    double old;         /* objects that stay */
    double churn, rate; /* objects that are replaced, how often in the whole time */
    double growth;      /* new objects that stay, in the whole time */
    double until;       /* the share of the time after which there are no more of them */
};

static void make_series(struct trend_point points[POINTS], const struct scene *scene)
{
    double old = count_events(scene->old), churn = count_events(scene->churn), grown = 0,
           lives = exp(-scene->rate / (POINTS - 1));

    for (unsigned i = 0; i < POINTS; i++) {
        double share = (double)i / (POINTS - 1), now;
        if (i) {
            churn = count_survivors(churn, lives) + count_events(scene->churn * (1 - lives));
            if (share <= scene->until)
                grown += count_events(scene->growth / scene->until / (POINTS - 1));
        }
        now = old + churn + grown;
        points[i] = (struct trend_point){16 * share, now, now, 0, 0};
    }
}

struct outcome {
    unsigned of[TREND_SHRINKS + 1], covered, independent;
    double stopped; /* the mean */
};

static struct outcome run_scene(const struct scene *scene, size_t tests)
{
    struct trend_point points[POINTS];
    struct outcome outcome = {{0}, 0, 0, 0};

    for (unsigned i = 0; i < RUNS; i++) {
        make_series(points, scene);
        struct trend trend = trend_of(points, POINTS, tests);
        const struct trend_point ends[] = {points[0], points[POINTS - 1]};
        outcome.of[trend.verdict]++;
        outcome.covered += trend.low <= scene->growth && scene->growth <= trend.high;
        outcome.independent += trend_of(ends, 2, tests).verdict == TREND_GROWS;
        outcome.stopped += trend.stopped / RUNS;
        CHECK(trend.low <= trend.bytes && trend.bytes <= trend.high);
        CHECK((trend.verdict == TREND_GROWS || trend.verdict == TREND_STOPPED) == (trend.low > 0));
        CHECK((trend.verdict == TREND_SHRINKS) == (trend.high < 0));
    }
    return outcome;
}

/* 1.2 GiB, and 1 MiB/s more for 16 s, in samples of 512 KiB: from two profiles it is unclear. */
static void test_leak(void)
{
    const struct scene leak = {.old = 2458, .growth = 32, .until = 1};
    struct outcome outcome = run_scene(&leak, 1);

    CHECK(outcome.of[TREND_GROWS] >= RUNS - 2 && outcome.covered >= RUNS - 8);
    CHECK(outcome.independent <= 2);
    outcome = run_scene(&leak, 20);
    CHECK(outcome.of[TREND_GROWS] >= RUNS - 4 && outcome.covered >= RUNS - 3);
}

/* As slow as a leak, or as fast as can be. */
static void test_churn(void)
{
    static const double rates[] = {0.01, 0.1, 1, 10, 100};

    for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
        const struct scene churn = {.churn = 300, .rate = rates[i], .until = 1};
        struct outcome outcome = run_scene(&churn, 20);
        CHECK(outcome.of[TREND_UNCLEAR] >= RUNS - 4 && outcome.covered >= RUNS - 4);
        CHECK(outcome.of[TREND_GROWS] <= 2);
    }
}

static void test_both(void)
{
    const struct scene both = {.old = 2358, .churn = 100, .rate = 0.03, .growth = 32, .until = 1};
    struct outcome outcome = run_scene(&both, 1);

    CHECK(outcome.of[TREND_GROWS] >= RUNS - 4 && outcome.independent <= 2);
}

static void test_cache(void)
{
    const struct scene cache = {.old = 400, .growth = 48, .until = 0.5};
    struct outcome outcome = run_scene(&cache, 1);

    CHECK(outcome.of[TREND_STOPPED] >= RUNS - 2);
    CHECK(fabs(outcome.stopped - 8) < 1);
}

/* A busy machine: it grows in leaps, each far beyond what the sampling can cause. */
static void test_leaps(void)
{
    static const double bytes[] = {1000, 1010, 1900, 1700, 1720, 3100, 2800, 2810, 4000, 5200};
    struct trend_point points[ARRAY_LEN(bytes)];

    for (size_t i = 0; i < ARRAY_LEN(bytes); i++)
        points[i] = (struct trend_point){(double)i, bytes[i], bytes[i], 0, 0};
    struct trend trend = trend_of(points, ARRAY_LEN(bytes), 10);
    CHECK(trend.low > 3900 && trend.high < 4500 && trend.verdict != TREND_UNCLEAR);
}

/* A cache of large objects, nearly all sampled, whose number goes up and down. */
static void test_large_objects(void)
{
    unsigned grows[2] = {0, 0};

    for (unsigned run = 0; run < 2 * RUNS; run++) {
        struct trend_point points[POINTS];
        for (unsigned i = 0; i < POINTS; i++) {
            double objects = count_events(50);
            points[i] = (struct trend_point){i, objects, objects / 10, 0, objects};
        }
        const struct trend_point ends[] = {points[0], points[POINTS - 1]};
        grows[0] += trend_of(ends, 2, 1).verdict == TREND_GROWS;
        grows[1] += trend_of(points, POINTS, 1).verdict == TREND_GROWS;
    }
    CHECK(grows[0] > RUNS / 4 && grows[1] <= RUNS / 20);
}

/* With opt.prof_accum two profiles tell more: what was not allocated was not replaced. */
static void test_accumulated(void)
{
    const struct trend_point first = {0, 2458, 2458, 9000, 0}, last = {16, 2490, 2490, 9032, 0};
    const struct trend_point ends[] = {first, last};
    struct trend trend = trend_of(ends, 2, 1);

    CHECK(trend.verdict == TREND_GROWS);
    CHECK(fabs(trend.variance - 32) < 1e-9 && fabs(trend.low - (32 - 1.96 * sqrt(32))) < 0.01);
    CHECK(trend.per_second == 2);
}

/* Without sampling every change is exact. */
static void test_exact(void)
{
    const struct trend_point first = {0, 1000, 0, 0, 0}, last = {4, 900, 0, 0, 0};
    const struct trend_point ends[] = {first, last}, none[] = {first, first};
    struct trend trend = trend_of(ends, 2, 1);

    CHECK(trend.verdict == TREND_SHRINKS && trend.low == -100 && trend.high == -100);
    CHECK(trend_of(none, 2, 1).verdict == TREND_UNCLEAR);
}

/* Untrusted numbers end in some verdict. */
static void test_odd(void)
{
    static const double odd[] = {0, 1e18, 1e-300, 9.2e18};
    struct trend_point points[POINTS];

    for (unsigned i = 0; i < 256; i++) {
        for (unsigned j = 0; j < POINTS; j++)
            points[j] = (struct trend_point){i & 128 ? 0 : j, odd[(i >> (j % 4 * 2)) & 3],
                                             odd[(i + j) % 4] * odd[j % 4], 0, odd[i & 3]};
        struct trend trend = trend_of(points, POINTS, 3);
        CHECK(trend.verdict <= TREND_SHRINKS && !isnan(trend.low) && !isnan(trend.high));
    }
}

/* 2^-n of n samples at most: many stacks of one sample do not count. */
static void test_number(void)
{
    const struct trend_point small[] = {{0, 0, 0, 0, 0}, {1, 1, 1, 0, 0}},
                             large[] = {{0, 50, 50, 0, 0}, {1, 60, 60, 0, 0}};
    struct trend_tests tests = {{0}};

    CHECK(trend_tests_count(&tests) == 1);
    for (unsigned i = 0; i < 1000; i++)
        trend_tests_add(&tests, small, 2);
    CHECK(trend_tests_count(&tests) == 1);
    for (unsigned i = 0; i < 7; i++)
        trend_tests_add(&tests, large, 2);
    CHECK(trend_tests_count(&tests) == 7);
    CHECK(trend_error(1, 7) > trend_error(1, 1) && fabs(trend_error(1, 1) - 1.96) < 0.001);
}

int main(void)
{
    test_leak();
    test_churn();
    test_both();
    test_cache();
    test_leaps();
    test_large_objects();
    test_accumulated();
    test_exact();
    test_odd();
    test_number();
    return check_result();
}
