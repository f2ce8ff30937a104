/* The period of the sampling of page faults. */
#include "check.h"
#include "perf/pace.h"

static const uint64_t ms = 1000000;

/* A process with a rate, seen by looks into the rings every 25 ms. */
struct run {
    struct pace pace;
    uint64_t now, faults, samples;
    unsigned changes;
};

static void begin_run(struct run *run, uint64_t period)
{
    *run = (struct run){.now = 5000 * ms};
    pace_start(&run->pace, period, 1000, run->now);
}

/* Returns the number of samples a second, over the whole time. */
static double go_on(struct run *run, double faults_a_second, unsigned for_ms)
{
    uint64_t samples = 0;

    for (unsigned at = 0; at < for_ms; at += 25) {
        uint64_t faults = (uint64_t)(faults_a_second * 0.025), taken = faults / run->pace.period;
        run->now += 25 * ms;
        run->faults += faults;
        samples += taken;
        bool changed = pace_hurry(&run->pace, taken, run->now);
        if (!changed && pace_is_due(&run->pace, run->now))
            changed = pace_look(&run->pace, run->faults, run->now);
        run->changes += changed;
    }
    return (double)samples * 1000 / for_ms;
}

static void test_primes(void)
{
    CHECK(pace_prime(0) == 1 && pace_prime(1) == 1 && pace_prime(2) == 2 && pace_prime(3) == 3);
    CHECK(pace_prime(4) == 5 && pace_prime(9) == 11 && pace_prime(256) == 257);
    CHECK(pace_prime(1009) == 1009 && pace_prime((uint64_t)1 << 32) == 4294967311u);
}

/* Any steady rate gives fewer samples than the most, after one change. */
static void test_steady(void)
{
    static struct run run;

    for (double rate = 400; rate < 1e8; rate *= 3) {
        begin_run(&run, 0);
        go_on(&run, rate, 1000);
        double taken = go_on(&run, rate, 20000);
        CHECK(taken <= 1000);
        CHECK(taken >= 200 || run.pace.period == 1);
        CHECK(run.changes <= 2);
        CHECK(run.pace.period == pace_prime(run.pace.period));
    }
}

/* After silence the period is short: a burst is noticed before a second is over. */
static void test_burst(void)
{
    static struct run run;

    begin_run(&run, 0);
    go_on(&run, 0, 5000);
    CHECK(run.pace.period == 1);
    go_on(&run, 250000, 100);
    CHECK(run.pace.period >= 100 && run.pace.period < 1000);
    CHECK(go_on(&run, 250000, 5000) <= 1000);
    go_on(&run, 0, 20000); /* and becomes short again */
    CHECK(run.pace.period < 20);
}

/* A rate that goes up and down by two does not change the period all the time. */
static void test_unsteady(void)
{
    static struct run run;

    begin_run(&run, 0);
    for (unsigned i = 0; i < 60; i++)
        go_on(&run, i % 2 ? 20000 : 40000, 1000);
    CHECK(run.changes <= 3);
}

/* One that was given is the shortest, where other processes add to the faults. */
static void test_loosened(void)
{
    struct run run;

    begin_run(&run, 50);
    pace_loosen(&run.pace);
    go_on(&run, 1000000, 1000);
    CHECK(go_on(&run, 1000000, 3000) <= 1000);
    go_on(&run, 100, 30000);
    CHECK(run.pace.period == 50 && !run.pace.fixed);
}

static void test_fixed(void)
{
    static struct run run;

    begin_run(&run, 3);
    go_on(&run, 1e7, 5000);
    CHECK(run.pace.period == 3 && run.changes == 0);
}

int main(void)
{
    test_primes();
    test_steady();
    test_burst();
    test_unsteady();
    test_fixed();
    test_loosened();
    return check_result();
}
