/*
 * The random choice of objects: in one pass over all objects of unknown number, a uniform
 * sample of each size class (Li, Reservoir-Sampling Algorithms of Time Complexity
 * O(n(1 + log(N/n))), 1994: Algorithm L); then as many of each as its bytes deserve.
 */
#pragma once

#include "run/peek/peek.h"

struct peek_draw {
    struct peek *peek;
    size_t samples; /* of each class at most, and of all together */
    bool failed;    /* out of memory */
};

/* Seeds peek->random. */
void peek_draw_seed(struct peek *peek);
/* Offers the objects of an extent. False: out of memory. */
bool peek_draw_offer(struct peek_draw *draw, const struct extent *extent);
/* Chooses the samples of all classes: peek->samples, in the order of addresses. */
bool peek_draw_choose(struct peek_draw *draw);
