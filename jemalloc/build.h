/*
 * Which build of jemalloc answers, and how it was started: what must be known
 * before a name may be used. All of it is constant for the life of a process,
 * and these reads are safe in every version.
 *
 * A build with config.debug checks at each mallctl that the thread holds no
 * lock of jemalloc's and is not inside it, and aborts otherwise
 * (check_entry_exit_locking, tsd_reentrancy_level). A safe point proves just
 * that, of the whole stack; the read of config.debug itself would be too late
 * to ask. So debug builds are called like all others.
 */
#pragma once

#include "jemalloc/ctl.h"
#include "jemalloc/version.h"

struct build {
    char text[128];         /* the version string */
    struct version version; /* from it; else the least that has the names which this build has */
    bool guessed;           /* the string names no release */
    bool prof_compiled_in;  /* config.prof */
    bool prof_enabled;      /* opt.prof */
    bool stats;             /* config.stats */
    /* Size classes, which arrays of jemalloc's have as their length; 0: not known. */
    unsigned bins, large, runs, huge; /* arenas.nbins, nlextents; of 4.x: nlruns, nhchunks */
};

/* FAULT_CTL_REFUSED if it does not even tell its version; or what ctl_run returns. */
fault_code build_read(struct injection *injection, const struct instance *instance,
                      struct build *build, struct fault *fault);

/* FAULT_PROF_ABSENT, FAULT_PROF_DISABLED or FAULT_NONE. */
fault_code build_can_profile(const struct build *build, struct fault *fault);
