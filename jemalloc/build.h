/*
 * Which jemalloc this is: its release, and what was compiled in and enabled.
 * All of it is constant for the life of a process, and reading it is safe in
 * every version; it has to be known before other names are used. It is read by
 * calls (build_read, prof_read, stats_read) or from memory
 * (facts_read).
 *
 * A build with config.debug checks at each mallctl that the thread holds no
 * lock of jemalloc and is not inside it, and aborts otherwise
 * (check_entry_exit_locking, tsd_reentrancy_level). A safe point proves just
 * that, for the whole stack; reading config.debug first would itself be such a
 * call. So debug builds are called like all others.
 */
#pragma once

#include "jemalloc/ctl.h"

/* A boolean that may not be known. */
enum fact { FACT_UNKNOWN, FACT_NO, FACT_YES };

static inline enum fact fact_of(bool value)
{
    return value ? FACT_YES : FACT_NO;
}

struct build {
    char text[VERSION_TEXT_MAX]; /* the version string, "5.3.0-0-g54eaed1d..."; "": unknown */
    struct version version;      /* parsed from it, or guessed */
    bool guessed;                /* the string names no release: the least with all names found */
    enum fact config_prof;       /* profiling is compiled in */
    enum fact opt_prof;          /* profiling was enabled at start */
    enum fact config_stats;      /* statistics are compiled in */
    /* Numbers of size classes, the lengths of arrays in jemalloc; 0: unknown. By build_read. */
    unsigned bins, large, runs, huge; /* arenas.nbins, nlextents; in 4.x: nlruns, nhchunks */
    unsigned arenas;                  /* arenas.narenas, only of 4.0; 0: unknown */
};

/*
 * Takes version, config.prof, opt.prof and config.stats from a list of
 * operations that ctl_run has run, in any order; everything else in *build
 * becomes unknown. A refused boolean is FACT_NO. FAULT_CTL_REFUSED if "version"
 * was refused.
 */
fault_code build_take(struct build *build, const struct ctl_op *ops, size_t count,
                      struct fault *fault);

/* Reads all of it by calls. FAULT_CTL_REFUSED if "version" is refused; or what ctl_run returns. */
fault_code build_read(struct injection *injection, const struct instance *instance,
                      struct build *build, struct fault *fault);

/* FAULT_PROF_ABSENT, FAULT_PROF_DISABLED or FAULT_NONE. */
fault_code build_can_profile(const struct build *build, struct fault *fault);
