/* What to do next with a process whose memory is in question: one step. */
#pragma once

#include "jemalloc/prof.h"
#include "run/explain/rise.h"

/* What the step depends on. Shares are of the RSS, 0 to 1; 0 also if they are not known. */
struct explain_facts {
    bool readable; /* its memory may be read */
    bool callable; /* a call is possible: nothing forbids an attach */
    bool halted;   /* stopped or frozen: it does not run */
    bool jemalloc; /* it has one */
    bool objects;  /* its records of live objects can be read */
    bool profile;  /* its profile was read, and has samples */
    bool unclear;  /* how much of its memory is free: jemalloc's counts are old */
    bool counts;   /* it can have counts: not built without statistics */
    enum prof_verdict prof;
    enum rise_state rise;
    double free_pages; /* pages without allocations, that a purge returns */
    double slack;      /* free space in pages with allocations */
};

enum explain_step {
    STEP_PERMIT,     /* get the right to read it */
    STEP_LEAK,       /* it grows */
    STEP_PURGE,      /* much of it is in free pages */
    STEP_FRAG,       /* much of it is free space between allocations */
    STEP_DUMP,       /* it has a profile */
    STEP_RECORD,     /* it can profile */
    STEP_STATS,      /* its counts are old, or not known */
    STEP_STATS_READ, /* the same, for a process that can make no call */
    STEP_PEEK,       /* its memory is in use, and it cannot profile */
    STEP_AGAIN,      /* it does not run: explain it again when it does */
    STEP_LOOK,       /* nothing else can be done: whether it grows slowly */
    STEP_COUNT,
};

/* Shares from which free memory is the answer. */
#define EXPLAIN_FREE_PAGES 0.2
#define EXPLAIN_SLACK      0.25

/* Returns the most useful next step: the first in the order of the rules that applies. */
enum explain_step explain_decide(const struct explain_facts *facts);
