/* Whether memory grows, from a few measurements; and how long the space below a limit lasts. */
#include "check.h"
#include "run/explain/rise.h"

#define MIB       ((uint64_t)1 << 20)
#define TENTH_NS  100000000u
#define SECOND_NS 1000000000u

/* Ten intervals of 0.1 s; at(i) MiB. */
static struct rise judge(const double *mib, size_t count)
{
    struct rise_points points = {.count = 0};

    for (size_t i = 0; i < count; i++)
        rise_add(&points, 5 * SECOND_NS + i * TENTH_NS, (uint64_t)(mib[i] * (double)MIB));
    return rise_judge(&points);
}

static void test_states(void)
{
    static const double steady[] = {100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110};
    static const double flat[] = {100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100};
    static const double noise[] = {100, 100.1, 100, 100.2, 100.1, 100.2, 100.1, 100.2, 100, 100.1};
    static const double step[] = {100, 100, 100, 100, 100, 164, 164, 164, 164, 164, 164};
    static const double churn[] = {100, 120, 100, 120, 100, 120, 100, 120, 100, 120, 101};
    static const double sinking[] = {101, 120, 100, 120, 100, 120, 100, 120, 100, 120, 100};
    static const double falling[] = {100, 98, 96, 94, 92, 90, 88, 86, 84, 82, 80};
    struct rise rise = judge(steady, 11);

    CHECK(rise.state == RISE_GROWING && rise.change == (int64_t)(10 * MIB));
    CHECK(rise.ns == SECOND_NS && rise.per_second > 9.99 * MIB && rise.per_second < 10.01 * MIB);
    CHECK(judge(flat, 11).state == RISE_NONE && judge(flat, 11).per_second == 0);
    CHECK(judge(noise, 10).state == RISE_NONE);
    CHECK(judge(step, 11).state == RISE_STEP && judge(step, 11).change == (int64_t)(64 * MIB));
    CHECK(judge(churn, 11).state == RISE_SWINGING && judge(churn, 11).change == (int64_t)MIB);
    CHECK(judge(sinking, 11).state == RISE_SWINGING && judge(sinking, 11).change < 0);
    CHECK(judge(falling, 11).state == RISE_FALLING && judge(falling, 11).per_second < 0);
}

/* A growth in every third interval is steady; in fewer it is a step. */
static void test_every_third(void)
{
    static const double third[] = {10, 10, 10, 11, 11, 11, 12, 12, 12, 13};
    static const double fourth[] = {10, 10, 10, 10, 11, 11, 11, 11, 12, 12, 12, 12, 12};

    CHECK(judge(third, 10).state == RISE_GROWING);
    CHECK(judge(fourth, 13).state == RISE_STEP);
}

static void test_too_few(void)
{
    static const double any[] = {1, 2, 3};
    struct rise_points same = {.count = 0}, full = {.count = 0};

    CHECK(judge(any, 0).state == RISE_UNKNOWN && judge(any, 2).state == RISE_UNKNOWN);
    CHECK(judge(any, 3).state == RISE_GROWING);
    for (int i = 0; i < 3; i++)
        rise_add(&same, 7, MIB * (unsigned)i);
    CHECK(rise_judge(&same).state == RISE_UNKNOWN && rise_judge(&same).per_second == 0);
    for (unsigned i = 0; i <= RISE_POINTS; i++)
        rise_add(&full, i, 2 * i);
    CHECK(full.count == RISE_POINTS / 2 + 1); /* every second one, and the newest */
    CHECK(full.time_ns[1] == 2 && full.bytes[1] == 4 &&
          full.time_ns[RISE_POINTS / 2] == RISE_POINTS);
}

/* Halves that differ say little of the time to come. */
static void test_uneven(void)
{
    static const double steady[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
                        slower[] = {0, 2, 4, 6, 8, 10, 11, 12, 13, 14, 15},
                        nearly[] = {0, 1, 2, 3, 4, 5, 5.9, 6.8, 7.7, 8.6, 9.5};

    CHECK(!judge(steady, 11).uneven && !judge(nearly, 11).uneven);
    CHECK(judge(slower, 11).uneven);
}

static void test_time_left(void)
{
    uint64_t ns;

    CHECK(rise_time_left(10 * MIB, (double)MIB, &ns) && ns == 10ull * SECOND_NS);
    CHECK(rise_time_left(0, 1, &ns) && ns == 0);
    CHECK(!rise_time_left(MIB, 0, &ns) && ns == 0);
    CHECK(!rise_time_left(MIB, -1, &ns) && !rise_time_left(MIB, -1e300, &ns));
    CHECK(!rise_time_left(UINT64_MAX, 1, &ns) && ns == 0);
    CHECK(!rise_time_left(UINT64_MAX, 1e-300, &ns) && !rise_time_left(1, __builtin_nan(""), &ns));
    CHECK(rise_time_left(UINT64_MAX, 1e18, &ns) && ns > 18ull * SECOND_NS);
    CHECK(rise_time_left(1, 1e300, &ns) && ns == 0);
}

int main(void)
{
    test_states();
    test_every_third();
    test_too_few();
    test_uneven();
    test_time_left();
    return check_result();
}
