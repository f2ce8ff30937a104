/*
 * Reads the state of heap profiling, and switches it.
 *
 * opt.prof:false cannot be changed later in any version, and up to 5.2.1 a
 * write of prof.active then "succeeds" without effect (jemalloc.c, ctl.c at
 * those tags). So config.prof and opt.prof are read first, and a value that was
 * written is read back.
 */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/hooks.h"

/* Read by calls (prof_read), or from memory (facts_read). */
struct prof_state {
    struct build build;
    enum fact prof_active;              /* up to 5.2.1 it can be true without opt.prof */
    enum fact thread_active_init;       /* prof.thread_active_init */
    bool lg_sample_known, prefix_known; /* the next two */
    uint64_t lg_sample;                 /* a sample every 2^n bytes on average (prof.lg_sample) */
    char prefix[4100];                  /* opt.prof_prefix; "" if not compiled in */
};

static inline bool prof_is_active(const struct prof_state *state)
{
    return state->prof_active == FACT_YES;
}

/* What a state means: the first that applies, in this order. */
enum prof_verdict {
    PROF_UNKNOWN,     /* not enough of it is known */
    PROF_ABSENT,      /* config.prof is false: this build cannot profile */
    PROF_DISABLED,    /* opt.prof is false: the process would have to be restarted */
    PROF_DENSE,       /* so many samples that the process may slow down: PROF_LG_DENSE or less */
    PROF_SPARSE,      /* so few samples that a profile says little: PROF_LG_SPARSE or more */
    PROF_INACTIVE,    /* prof.active is false */
    PROF_OLD_THREADS, /* prof.thread_active_init is false: new threads do not sample */
    PROF_READY,       /* it samples */
};

enum { PROF_LG_DENSE = 9, PROF_LG_SPARSE = 30, PROF_LG_DEFAULT = 19 };

/* An unknown period or thread_active_init is assumed to be the default. */
enum prof_verdict prof_judge(const struct prof_state *state);

/* Reads the whole state in one list of calls. */
fault_code prof_read(struct injection *injection, const struct instance *instance,
                     struct prof_state *state, struct fault *fault);

/*
 * Sets prof.active and reads it back. *former becomes the state before.
 * FAULT_PROF_*: this process cannot profile. FAULT_CTL_REFUSED: mallctl refused
 * it, or the value read back is not the value written.
 */
fault_code prof_switch(struct injection *injection, const struct instance *instance, bool active,
                       struct prof_state *former, struct fault *fault);

/* Reads prof.active only. FAULT_CTL_REFUSED if mallctl refuses. */
fault_code prof_active_read(struct injection *injection, const struct instance *instance,
                            bool *active, struct fault *fault);
