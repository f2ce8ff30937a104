/*
 * A bound on the work that files and targets may ask of one run of the tool, however
 * many of them ask. It renews itself slowly, for runs of days.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct allowance {
    uint64_t max, per_second; /* bytes, say */
    uint64_t taken, taken_at; /* initially 0 */
};

uint64_t allowance_left(struct allowance *allowance);
/* False: that is more than is left, and nothing is taken. */
bool allowance_take(struct allowance *allowance, uint64_t amount);
