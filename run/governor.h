/*
 * The interval between refreshes of top: the requested one, unless a thread
 * would be stopped for more than the allowed percentage of the time. Then the
 * interval grows, and shrinks again when refreshes become cheaper. A single dear
 * refresh lets it grow to at most 10 s, or 10 times its cost: the next one shows
 * whether it was an exception.
 */
#pragma once

#include <stdint.h>

enum {
    GOVERNOR_MEMORY = 16, /* refreshes whose mean must be below the limit */
    GOVERNOR_RECENT = 4,  /* at most one of these may exceed the limit by itself */
};

struct governor {
    uint64_t asked, interval;        /* nanoseconds */
    unsigned percent;                /* of the time that threads may be stopped */
    uint64_t costs[GOVERNOR_MEMORY]; /* of the last refreshes: how long threads were stopped, ns */
    uint64_t rounds;
};

void governor_init(struct governor *governor, uint64_t asked, unsigned percent);
/*
 * Adds the cost of a refresh; returns the next interval: at least the requested
 * one, at most an hour, rounded to 1, 2, 5, 10, ... tenths of a second.
 */
uint64_t governor_next(struct governor *governor, uint64_t cost);
/* The part of the time that threads are stopped, at this interval. */
double governor_share(const struct governor *governor);
