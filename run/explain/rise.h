/* Whether an amount of memory grows, from a few measurements within a second or longer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RISE_POINTS = 32 };

/* Less than this within the whole time is noise: the kernel counts pages in batches per CPU. */
#define RISE_LEAST ((int64_t)256 << 10)

struct rise_points {
    uint64_t time_ns[RISE_POINTS]; /* ascending, of any clock */
    uint64_t bytes[RISE_POINTS];
    size_t count;
};

enum rise_state {
    RISE_UNKNOWN,  /* fewer than 3 points, or no time between them */
    RISE_NONE,     /* what has changed is too little to judge */
    RISE_GROWING,  /* in a third of the intervals, and far more than it has fallen */
    RISE_STEP,     /* it is larger at the end, but not by a steady growth */
    RISE_SWINGING, /* it went up and down, and is larger or smaller at the end */
    RISE_FALLING,
};

struct rise {
    enum rise_state state;
    int64_t change;    /* from the first point to the last, bytes */
    uint64_t ns;       /* between these two */
    double per_second; /* change / ns; 0 if unknown */
    bool uneven;       /* the rates of its halves differ by a quarter or more */
};

/* Adds a measurement; when there is no more place, every second one is kept. */
void rise_add(struct rise_points *points, uint64_t time_ns, uint64_t bytes);
/* Judges all of them. */
struct rise rise_judge(const struct rise_points *points);

/* The time in which `free` bytes are used up. False: never at this rate, or in over ten years. */
bool rise_time_left(uint64_t free, double per_second, uint64_t *ns);
