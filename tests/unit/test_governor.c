/* The interval of top: it follows the cost of a refresh. */
#include "check.h"
#include "run/governor.h"

#define MS ((uint64_t)1000000)
#define S  (1000 * MS)

static void test_cheap(void)
{
    struct governor governor;

    governor_init(&governor, 2 * S, 1);
    CHECK(governor.interval == 2 * S && governor_share(&governor) == 0);
    CHECK(governor_next(&governor, 0) == 2 * S);
    CHECK(governor_next(&governor, 20 * MS) == 2 * S);
    CHECK(governor_next(&governor, 20 * MS) == 2 * S); /* 1 % to the nanosecond */
    CHECK(governor_share(&governor) == 0.01);
}

static void test_grows_and_shrinks(void)
{
    struct governor governor;

    governor_init(&governor, 2 * S, 1);
    CHECK(governor_next(&governor, 20 * MS + 1) == 5 * S);
    CHECK(governor_next(&governor, 251 * MS) == 10 * S); /* a single one may be an exception */
    CHECK(governor_next(&governor, 251 * MS) == 50 * S);
    CHECK(governor_share(&governor) <= 0.01);
    CHECK(governor_next(&governor, 1 * MS) == 50 * S); /* not at once */
    CHECK(governor_next(&governor, 1 * MS) == 50 * S);
    CHECK(governor_next(&governor, 1 * MS) == 10 * S);
    for (int i = 0; i < GOVERNOR_MEMORY; i++)
        governor_next(&governor, 1 * MS);
    CHECK(governor.interval == 2 * S);
}

/* One among many does not change it, but counts. */
static void test_outlier(void)
{
    struct governor governor;

    governor_init(&governor, 1 * S, 1);
    for (int i = 0; i < GOVERNOR_MEMORY; i++)
        CHECK(governor_next(&governor, 1 * MS) == 1 * S);
    CHECK(governor_next(&governor, 100 * MS) == 1 * S);
    for (int i = 0; i < GOVERNOR_MEMORY; i++)
        CHECK(governor_next(&governor, 1 * MS) == 1 * S);
    CHECK(governor_next(&governor, 600 * MS) == 5 * S);
    for (int i = 1; i < GOVERNOR_MEMORY; i++)
        CHECK(governor_next(&governor, 1 * MS) == 5 * S);
    CHECK(governor_next(&governor, 1 * MS) == 1 * S);
}

/* Nor does it make anybody wait for minutes, first or later; two of them do. */
static void test_dear_outlier(void)
{
    struct governor governor;

    governor_init(&governor, 2 * S, 1);
    CHECK(governor_next(&governor, 900 * MS) == 10 * S);
    CHECK(governor_next(&governor, 5 * MS) == 10 * S);
    for (int i = 0; i < GOVERNOR_MEMORY; i++)
        governor_next(&governor, 5 * MS);
    CHECK(governor.interval == 2 * S);
    for (int i = 0; i < GOVERNOR_MEMORY; i++)
        CHECK(governor_next(&governor, i ? 5 * MS : 990 * MS) == (10 * S));
    CHECK(governor_next(&governor, 5 * MS) == 2 * S);
    governor_next(&governor, 990 * MS);
    CHECK(governor_next(&governor, 990 * MS) == 100 * S);
    governor_init(&governor, 2 * S, 1);
    CHECK(governor_next(&governor, 4 * S) == 50 * S); /* ten times what it cost */
}

/* A cost that goes up and down does not change the interval each time. */
static void test_calm(void)
{
    struct governor governor;
    unsigned changes = 0;
    uint64_t last = 0;

    governor_init(&governor, 1 * S, 1);
    for (int i = 0; i < 100; i++) {
        uint64_t interval = governor_next(&governor, i % 2 ? 8 * MS : 12 * MS);
        changes += i && interval != last;
        last = interval;
    }
    CHECK(last == 2 * S && changes <= 2); /* of the first three */
}

static void test_limits(void)
{
    struct governor governor;

    governor_init(&governor, 100 * MS, 1);
    CHECK(governor_next(&governor, UINT64_MAX) == 3600 * S);
    governor_init(&governor, 7200 * S, 1);
    CHECK(governor_next(&governor, UINT64_MAX) == 7200 * S);
    CHECK(governor_next(&governor, 1) == 7200 * S);
    governor_init(&governor, 1, 1);
    CHECK(governor_next(&governor, 1) == 100 * MS && governor_next(&governor, 7 * MS) == 500 * MS);
}

static void test_percent(void)
{
    struct governor governor;

    governor_init(&governor, 100 * MS, 50);
    CHECK(governor_next(&governor, 60 * MS) == 200 * MS && governor_share(&governor) == 0.3);
    governor_init(&governor, 100 * MS, 100);
    CHECK(governor_next(&governor, 600 * MS) == 1 * S);
}

int main(void)
{
    test_percent();
    test_cheap();
    test_grows_and_shrinks();
    test_outlier();
    test_dear_outlier();
    test_calm();
    test_limits();
    return check_result();
}
