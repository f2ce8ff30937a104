/*
 * Heap profiling: its state, and switching it.
 *
 * opt.prof:false cannot be changed later in any version, and up to 5.2.1 a
 * write of prof.active then "succeeds" without effect (jemalloc.c, ctl.c at
 * those tags). So config.prof and opt.prof are read before anything is done,
 * and what was written is read back.
 */
#pragma once

#include "jemalloc/ctl.h"

struct prof_state {
    char version[128];       /* "5.3.0-0-g54eaed1d..." */
    bool compiled_in;        /* config.prof */
    bool enabled;            /* opt.prof */
    bool active;             /* prof.active */
    bool thread_active_init; /* prof.thread_active_init */
    uint64_t lg_sample;      /* prof.lg_sample: a sample every 2^n bytes on average */
    char prefix[4100];       /* opt.prof_prefix; "" if not compiled in */
    bool stats;              /* config.stats */
};

/* Reads the whole state in one go. */
enum fault_code prof_read(struct injection *injection, const struct instance *instance,
                          struct prof_state *state, struct fault *fault);

/* FAULT_PROF_ABSENT, FAULT_PROF_DISABLED or FAULT_NONE. */
enum fault_code prof_usable(const struct prof_state *state, struct fault *fault);

/*
 * Sets prof.active and reads it back. *former is what it was. FAULT_PROF_*
 * when this process cannot profile at all, FAULT_CTL_REFUSED when the value
 * read back is not the one written.
 */
enum fault_code prof_switch(struct injection *injection, const struct instance *instance,
                            bool active, bool *former, struct fault *fault);
