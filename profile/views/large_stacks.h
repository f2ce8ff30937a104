/* The stacks that hold most memory, or that have grown most. */
#pragma once

#include "profile/views/display.h"

struct large_stack {
    uint32_t sample; /* the first one with these calls */
    struct amount amount, objects;
    double error; /* of amount, or of its growth; 0: exact */
    bool within;  /* a growth that the sampling alone may have caused */
};

/*
 * Finds at most `most` stacks, the largest first; in a comparison only stacks
 * that have grown. Samples with the same functions and lines are one stack.
 * Returns their number; SIZE_MAX: out of memory.
 */
size_t large_stacks_find(const struct samples *samples, const struct display *display, size_t most,
                         struct large_stack *out);
