#include "perf/pace.h"

enum {
    FIRST_PERIOD = 1009,
    FIRST_LOOK_MS = 100,
    LOOK_MS = 1000,
    CALM_LOOKS = 3, /* before the period becomes shorter */
    WINDOW_MS = 50, /* in which samples are counted for pace_hurry */
    NS_PER_MS = 1000000,
};

/* The share of the most samples that a new period aims at. */
#define PACE_AIM 0.7
/* What is left of a burst at the next look. */
#define FADE 0.7

uint64_t pace_prime(uint64_t number)
{
    if (number <= 2)
        return number == 2 ? 2 : 1;
    for (number |= 1;; number += 2) {
        uint64_t by = 3;
        while (by * by <= number && number % by)
            by += 2;
        if (by * by > number)
            return number;
    }
}

void pace_start(struct pace *pace, uint64_t period, unsigned most, uint64_t now_ns)
{
    *pace = (struct pace){
        .fixed = period != 0,
        .most = most,
        .period = period ? period : FIRST_PERIOD,
        .since_ns = now_ns,
        .window_ns = now_ns,
        .calm = CALM_LOOKS, /* the first look may shorten it at once */
    };
}

void pace_loosen(struct pace *pace)
{
    if (pace->fixed)
        pace->least = pace->period;
    pace->fixed = false;
}

void pace_set_most(struct pace *pace, unsigned most)
{
    pace->most = most;
}

bool pace_is_due(const struct pace *pace, uint64_t now_ns)
{
    unsigned ms = pace->faults == 0 && pace->calm == CALM_LOOKS ? FIRST_LOOK_MS : LOOK_MS;

    return !pace->fixed && now_ns - pace->since_ns >= (uint64_t)ms * NS_PER_MS;
}

/* Returns the period for a rate; at most 2^32, which no process reaches in a second. */
static uint64_t period_for(const struct pace *pace, double rate)
{
    double wanted = rate / (PACE_AIM * pace->most);

    if (wanted < (double)pace->least)
        return pace->least;
    return pace_prime(wanted < 4294967296.0 ? (uint64_t)wanted + 1 : (uint64_t)1 << 32);
}

static void begin_window(struct pace *pace, uint64_t now_ns)
{
    pace->samples = 0;
    pace->window_ns = now_ns;
}

static bool change_period(struct pace *pace, uint64_t period, uint64_t now_ns)
{
    bool changed = period != pace->period;

    pace->period = period;
    pace->busiest = 0;
    pace->calm = 0;
    begin_window(pace, now_ns);
    return changed;
}

bool pace_look(struct pace *pace, uint64_t faults, uint64_t now_ns)
{
    double seconds = (double)(now_ns - pace->since_ns) / 1e9;
    double rate = faults > pace->faults ? (double)(faults - pace->faults) / seconds : 0;
    uint64_t wanted;

    pace->since_ns = now_ns;
    pace->faults = faults;
    if (pace->fixed || seconds <= 0)
        return false;
    pace->busiest = rate > pace->busiest * FADE ? rate : pace->busiest * FADE;
    if (rate / (double)pace->period > pace->most)
        return change_period(pace, period_for(pace, rate), now_ns);
    wanted = period_for(pace, pace->busiest);
    if (wanted > pace->period / 3) {
        pace->calm = 0;
        return false;
    }
    if (++pace->calm < CALM_LOOKS)
        return false;
    return change_period(pace, wanted, now_ns);
}

bool pace_hurry(struct pace *pace, uint64_t samples, uint64_t now_ns)
{
    uint64_t ns = now_ns - pace->window_ns;

    pace->samples += samples;
    if (!pace->fixed && pace->samples * 1000 > (uint64_t)pace->most * 2 * WINDOW_MS) {
        double rate = (double)pace->samples * 1e9 / (double)(ns ? ns : 1);
        if (rate > 2.0 * pace->most)
            return change_period(pace, period_for(pace, rate * (double)pace->period), now_ns);
    }
    if (ns > (uint64_t)WINDOW_MS * NS_PER_MS)
        begin_window(pace, now_ns);
    return false;
}
