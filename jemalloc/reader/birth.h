/*
 * When arena 0 was created, for the age of the gauges: jemalloc keeps no time of
 * their collection, but how old arena 0 was at that moment (arena.c,
 * arena_stats_merge: uptime, since 5.0), by CLOCK_MONOTONIC or its coarse form
 * (nstime.c), which is up to 4 ms behind.
 *
 * The time of creation is in arena_t right behind the pointer to its base, whose
 * first member is the number of the arena (arena.h; base.h, base_t). Its offset in
 * arena_t differs from version to version. An offset is accepted if arena 0 and
 * each other arena have, at that offset, a pointer to a base with the number of
 * that arena. If more than one time is possible, none is taken.
 */
#pragma once

#include "jemalloc/reader/reader.h"
#include "jemalloc/stripped/getters.h"

enum {
    ARENAS_MAX = 4096,
    CTL_ARENA_PACTIVE = 56, /* offsets in struct ctl_arena_s, 5.0 to the development branch */
    CTL_ARENA_ASTATS = 80,
};

struct birth_question {
    const struct reader_source *source;
    const struct getter_variables *arenas; /* possible addresses of the array of arenas */
    uint64_t uptime;                       /* of arena 0 at some time in the past; nanoseconds */
    size_t count;                          /* of arenas that there may be */
};

/*
 * Returns when arena 0 was created, by CLOCK_MONOTONIC in nanoseconds; 0: unknown, as
 * also for a process in another time namespace.
 */
uint64_t birth_find(const struct birth_question *question);

/* Reads the uptime in the record of an arena, struct ctl_arena_s, in ns. False: unknown. */
bool birth_uptime(remote_addr record, const struct getters *getters, struct memory *memory,
                  uint64_t *uptime);

/* Returns for how long the process has lived, in nanoseconds: no arena is older. */
uint64_t birth_uptime_limit(const struct target *target);
