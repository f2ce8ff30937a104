#include "run/governor.h"

#include <string.h>

#define LONGEST (3600ull * 1000000000u)
/* One dear refresh causes no longer interval, unless that is less than SINGLE_PART times its cost.
 */
#define SINGLE_LONGEST (10ull * 1000000000u)
enum { SINGLE_PART = 10 };

void governor_init(struct governor *governor, uint64_t asked, unsigned percent)
{
    memset(governor, 0, sizeof *governor);
    governor->percent = percent;
    governor->asked = governor->interval = asked;
}

static uint64_t known(const struct governor *governor, uint64_t most)
{
    return governor->rounds < most ? governor->rounds : most;
}

/* The cost of the refresh number `back` before the newest. */
static uint64_t cost_of(const struct governor *governor, uint64_t back)
{
    return governor->costs[(governor->rounds - 1 - back) % GOVERNOR_MEMORY];
}

static uint64_t mean_cost(const struct governor *governor)
{
    uint64_t count = known(governor, GOVERNOR_MEMORY);
    double sum = 0;

    for (uint64_t i = 0; i < count; i++)
        sum += (double)cost_of(governor, i);
    return count && sum < (double)LONGEST ? (uint64_t)(sum / (double)count) : count ? LONGEST : 0;
}

/* Of the last few refreshes; first: the dearest. */
static uint64_t second_dearest(const struct governor *governor, uint64_t *dearest)
{
    uint64_t count = known(governor, GOVERNOR_RECENT), first = 0, second = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t cost = cost_of(governor, i);
        if (cost > first) {
            second = first;
            first = cost;
        } else if (cost > second) {
            second = cost;
        }
    }
    *dearest = first;
    return second;
}

static uint64_t cost_to_interval(const struct governor *governor, uint64_t cost)
{
    return cost < LONGEST / 100 ? cost * 100 / governor->percent : LONGEST;
}

/*
 * The interval that the last few refreshes need, without the dearest: a refresh that
 * waited for a CPU says nothing about the next. That one counts in the mean.
 */
static uint64_t needed_interval(const struct governor *governor)
{
    uint64_t dearest, recent = cost_to_interval(governor, second_dearest(governor, &dearest)),
                      usual = cost_to_interval(governor, mean_cost(governor)),
                      single = dearest < LONGEST / SINGLE_PART ? dearest * SINGLE_PART : LONGEST;

    if (single < SINGLE_LONGEST)
        single = SINGLE_LONGEST;
    if (usual > single)
        usual = single;
    return recent > usual ? recent : usual;
}

/* Rounds up to 1, 2, 5, 10, 20, ... tenths of a second. */
static uint64_t round_up(uint64_t ns)
{
    static const unsigned steps[] = {1, 2, 5};

    for (uint64_t unit = 100000000;; unit *= 10)
        for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++)
            if (unit * steps[i] >= ns || unit * steps[i] >= LONGEST)
                return unit * steps[i];
}

uint64_t governor_next(struct governor *governor, uint64_t cost)
{
    uint64_t needed;

    governor->costs[governor->rounds++ % GOVERNOR_MEMORY] = cost;
    needed = needed_interval(governor);
    if (needed <= governor->asked)
        governor->interval = governor->asked;
    else
        governor->interval = round_up(needed) < LONGEST ? round_up(needed) : LONGEST;
    if (governor->interval < governor->asked) /* more than an hour was requested */
        governor->interval = governor->asked;
    return governor->interval;
}

double governor_share(const struct governor *governor)
{
    uint64_t dearest, recent = second_dearest(governor, &dearest), usual = mean_cost(governor);

    if (!governor->interval)
        return 0;
    return (double)(recent > usual ? recent : usual) / (double)governor->interval;
}
