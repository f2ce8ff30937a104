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
#include "jemalloc/version.h"

struct prof_state {
    char version[128];       /* "5.3.0-0-g54eaed1d..." */
    bool compiled_in;        /* config.prof */
    bool enabled;            /* opt.prof */
    bool active;             /* prof.active */
    bool thread_active_init; /* prof.thread_active_init */
    uint64_t lg_sample;      /* prof.lg_sample: a sample every 2^n bytes on average */
    char prefix[4100];       /* opt.prof_prefix; "" if not compiled in */
    bool stats;              /* config.stats */
    char built_in[1024];     /* config.malloc_conf: options that it was built with; since 4.1 */
};

/* What a state means; in this order, the first that holds. */
enum prof_verdict {
    PROF_ABSENT,      /* config.prof is false: it cannot profile */
    PROF_DISABLED,    /* opt.prof is false: it would have to be restarted */
    PROF_DENSE,       /* so many samples that it may be slowed down: PROF_LG_DENSE or less */
    PROF_SPARSE,      /* so few that a profile says little: PROF_LG_SPARSE or more */
    PROF_INACTIVE,    /* prof.active is false */
    PROF_OLD_THREADS, /* prof.thread_active_init is false: threads to come do not sample */
    PROF_READY,       /* it samples */
};

enum { PROF_LG_DENSE = 9, PROF_LG_SPARSE = 30, PROF_LG_DEFAULT = 19 };

enum prof_verdict prof_judge(const struct prof_state *state);

/* Reads the whole state in one go. */
fault_code prof_read(struct injection *injection, const struct instance *instance,
                     struct prof_state *state, struct fault *fault);

/* FAULT_PROF_ABSENT, FAULT_PROF_DISABLED or FAULT_NONE. */
fault_code prof_usable(const struct prof_state *state, struct fault *fault);

/*
 * Sets prof.active and reads it back. *former is the state before. FAULT_PROF_*
 * when this process cannot profile at all, FAULT_CTL_REFUSED when the value
 * read back is not the one written.
 */
fault_code prof_switch(struct injection *injection, const struct instance *instance, bool active,
                       struct prof_state *former, struct fault *fault);

/* prof.active alone. FAULT_CTL_REFUSED. */
fault_code prof_active_read(struct injection *injection, const struct instance *instance,
                            bool *active, struct fault *fault);
/* Sets it and reads it back: FAULT_CTL_REFUSED also when that is not the value written. */
fault_code prof_active_write(struct injection *injection, const struct instance *instance,
                             bool active, struct fault *fault);
