/*
 * Finds the variables that the functions behind "epoch", "stats.allocated", ...
 * read, by the code of these functions, in any build, stripped or not.
 *
 * Since 5.0 they read through two pointers, ctl_stats and ctl_arenas; up to 4.5
 * the variables are ctl_stats itself, a structure, and ctl_epoch (ctl.c,
 * CTL_RO_CGEN). One function is no proof: all gauges must lead to the same
 * variable, in the order of the members of ctl_stats_t (ctl.h), which is the same
 * from 4.0 to the development branch.
 */
#pragma once

#include "jemalloc/instance.h"

enum ctl_gauge {
    CTL_ALLOCATED,
    CTL_ACTIVE,
    CTL_METADATA,
    CTL_RESIDENT,
    CTL_MAPPED,
    CTL_RETAINED, /* since 4.2 */
    CTL_PINNED,   /* since 5.4 */
    CTL_GAUGES
};

enum { GETTER_VARIABLES = 64 };

/* A few addresses of which at least one is right, if any: the data must tell which. */
struct getter_variables {
    remote_addr list[GETTER_VARIABLES];
    size_t count;
};

struct getters {
    remote_addr stats; /* ctl_stats; 0: not found */
    bool through;      /* it is a pointer */
    int64_t
        offset[CTL_GAUGES]; /* of the members, ascending; from CTL_RETAINED: 0 if there is none */
    struct getter_variables epochs; /* ctl_arenas, a pointer; else ctl_epoch */
    struct getter_variables arenas; /* the array of pointers to arenas */
    int64_t uptime; /* offset of astats.uptime in ctl_arena_stats_t, since 5.0; 0: not found */
};

/*
 * Fills *getters; they are the same in all processes that map the file. False:
 * there is no stats, because the code was not understood, or because jemalloc was
 * built without statistics.
 */
bool getters_find(struct getters *getters, const struct instance *instance,
                  const struct target *target, struct memory *memory);
