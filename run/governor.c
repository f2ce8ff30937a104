#include "run/governor.h"

#include <string.h>

#define LONGEST (3600ull * 1000000000u)

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

/* One refresh that waited for a CPU says nothing about the next. */
static uint64_t second_dearest(const struct governor *governor)
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
    return count == 1 ? first : second;
}

static uint64_t expected(const struct governor *governor)
{
    uint64_t recent = second_dearest(governor), usual = mean_cost(governor);

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
    uint64_t wanted, needed;

    governor->costs[governor->rounds++ % GOVERNOR_MEMORY] = cost;
    wanted = expected(governor);
    needed = wanted < LONGEST / 100 ? wanted * 100 / governor->percent : LONGEST;
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
    return governor->interval ? (double)expected(governor) / (double)governor->interval : 0;
}
