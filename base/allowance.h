/*
 * A bound on the work that files and targets may ask of one run of the tool, however
 * many of them ask. It renews itself slowly, for runs of days.
 *
 * One that asks for much leaves something to those after it: a large request gets at most half
 * of what is left, and small ones have a reserve that no large one touches.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct allowance {
    uint64_t max, per_second; /* bytes, say */
    uint64_t small;           /* a request up to this is small; max / ALLOWANCE_RESERVE is theirs */
    uint64_t taken, taken_small, taken_at; /* initially 0 */
};

enum { ALLOWANCE_RESERVE = 4 };

/* Returns the largest request that is granted now. */
uint64_t allowance_share(struct allowance *allowance);
/* False: that is more than its share, and nothing is taken. */
bool allowance_take(struct allowance *allowance, uint64_t amount);
