/*
 * How often top refreshes: as often as it was asked to, unless that would hold
 * a thread for more than its percentage of the time. Then more seldom, and again as asked
 * when it costs less.
 */
#pragma once

#include <stdint.h>

enum {
    GOVERNOR_MEMORY = 16, /* refreshes whose mean must be below that */
    GOVERNOR_RECENT = 4,  /* of which not more than one may be dearer than that by itself */
};

struct governor {
    uint64_t asked, interval;        /* nanoseconds */
    unsigned percent;                /* of the time that threads may be held */
    uint64_t costs[GOVERNOR_MEMORY]; /* of the last refreshes: how long threads were held, ns */
    uint64_t rounds;
};

void governor_init(struct governor *governor, uint64_t asked, unsigned percent);
/*
 * Takes what a refresh cost; returns the interval from now on: never below what
 * was asked for, never above an hour, in steps that are easy to read.
 */
uint64_t governor_next(struct governor *governor, uint64_t cost);
/* What part of the time threads are held, at this interval. */
double governor_share(const struct governor *governor);
