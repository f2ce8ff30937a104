/*
 * Reads the gauges of stats.* from the memory of a process: without a call,
 * without stopping a thread, without a lock.
 *
 * They are those that mallctl returns without a write of "epoch" before: jemalloc
 * collects them only when the program or a tool writes "epoch", at the first call
 * of mallctl, and in malloc_stats_print (ctl.c, ctl_refresh). So they have an age,
 * and a program that never did that has no gauges in its memory.
 *
 * The variables are found by the code that serves mallctl (stripped/getters.h),
 * and their values are checked: stats.active is the number of active pages of all
 * arenas, which is kept elsewhere (ctl.h, pactive; since 5.0), sizes are multiples
 * of the page.
 */
#pragma once

#include "jemalloc/reader/reader.h"
#include "jemalloc/stats.h"
#include "jemalloc/stripped/getters.h"

enum gauges_state {
    GAUGES_NOT_FOUND,  /* the variables: code that is not understood, or no statistics built in */
    GAUGES_UNPROVEN,   /* the values are not those of gauges, or they changed during each read */
    GAUGES_UNREADABLE, /* memory that is needed could not be read */
    GAUGES_NEVER,      /* they were never collected */
    GAUGES_COLLECTING, /* known, but a collection has begun after them, and has not ended */
    GAUGES_KNOWN,
};

enum gauges_age { AGE_UNKNOWN, AGE_AT_MOST, AGE_KNOWN };

struct gauges_reading {
    enum gauges_state state;
    struct stats_gauges gauges; /* zero unless gauges_known() */
    bool has_epoch;
    uint64_t epoch;       /* counts the collections */
    enum gauges_age aged; /* AGE_AT_MOST: by the age of the process */
    uint64_t age_ns;      /* time since they were collected; AGE_UNKNOWN: 0 */
};

static inline bool gauges_known(const struct gauges_reading *reading)
{
    return reading->state >= GAUGES_COLLECTING;
}

/* Where the gauges of one process lie. */
struct gauges_memory {
    struct reader_source source;
    struct getters getters;
    bool found;
    bool searched;    /* for the next member, once */
    uint64_t created; /* when arena 0 was: CLOCK_MONOTONIC, nanoseconds; 0: unknown */
};

/* Finds the variables; takes time in proportion to the size of the file. Owns nothing. */
void gauges_locate(struct gauges_memory *memory, const struct reader_source *source);

/* Reads the gauges, in a few microseconds, 50 ms at most; can be repeated. */
void gauges_read(struct gauges_memory *memory, struct gauges_reading *reading);
