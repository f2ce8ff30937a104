#include "cli/governor.h"

#include <string.h>

enum { SHARE = 100 }; /* a hundredth of the time */

#define LONGEST (3600ull * 1000000000u)

void governor_init(struct governor *governor, uint64_t asked)
{
    memset(governor, 0, sizeof *governor);
    governor->asked = governor->interval = asked;
}

static uint64_t dearest(const struct governor *governor)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < GOVERNOR_MEMORY; i++)
        if (governor->costs[i] > most)
            most = governor->costs[i];
    return most;
}

/* 1, 2, 5, 10, 20, ... times a tenth of a second: the first that is not below. */
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
    uint64_t most, needed;

    governor->costs[governor->rounds++ % GOVERNOR_MEMORY] = cost;
    most = dearest(governor);
    needed = most < LONGEST / SHARE ? most * SHARE : LONGEST;
    if (needed <= governor->asked)
        governor->interval = governor->asked;
    else
        governor->interval = round_up(needed) < LONGEST ? round_up(needed) : LONGEST;
    if (governor->interval < governor->asked) /* more than an hour was asked for */
        governor->interval = governor->asked;
    return governor->interval;
}

double governor_share(const struct governor *governor)
{
    return governor->interval ? (double)dearest(governor) / (double)governor->interval : 0;
}
