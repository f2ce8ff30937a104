/*
 * What matters most of a process whose memory is in question: its facts, the largest first, and
 * one next step. Decisions without words.
 */
#pragma once

#include "jemalloc/prof.h"
#include "run/explain/rise.h"

/* The facts that a headline may state; first those that are not parts of its memory. */
enum explain_headline {
    HEADLINE_LIMIT,    /* it reaches a limit soon, or its cgroup has nearly done so */
    HEADLINE_GROWTH,   /* it grows steadily */
    HEADLINE_SLABS,    /* free space between objects */
    HEADLINE_PADDING,  /* free space behind large objects */
    HEADLINE_PAGES,    /* free pages, which a purge returns */
    HEADLINE_PINNED,   /* free pages that extent hooks have pinned */
    HEADLINE_RETAINED, /* address space without objects that is in memory */
    HEADLINE_IN_USE,
    HEADLINE_SAMPLING,
    HEADLINE_OWN,     /* data of jemalloc itself */
    HEADLINE_OTHER,   /* of other jemallocs */
    HEADLINE_OUTSIDE, /* outside jemalloc, or all of it without jemalloc */
    HEADLINE_SWAPPED,
    HEADLINE_HUGE, /* pages of hugetlbfs, which the RSS does not count */
    HEADLINES,
};

/* What the order depends on. */
struct explain_amounts {
    uint64_t parts[HEADLINES]; /* bytes of those that are parts; 0: none, or not known */
    uint64_t whole;            /* bytes: RSS, and what is swapped out */
    double per_second;         /* of a steady growth, bytes; 0: none */
    double watched_s;          /* for how long it was seen */
    bool limited;              /* limit_ns is known */
    uint64_t limit_ns;         /* in which the limit is reached at this rate */
    double full;               /* share of a cgroup's limit that is used; 0: not known */
};

/* From this share of a limit on, or below this time to it, nothing is more urgent. */
#define EXPLAIN_FULL    0.9
#define EXPLAIN_SOON_NS (600 * 1000000000ull)
/* A growth counts as what it adds in so many times the time for which it was seen, at most ... */
#define EXPLAIN_GROWTH_TIMES 60
#define EXPLAIN_GROWTH_S     600

/*
 * Fills order with the facts that are worth words, and returns their number. An urgent limit is
 * the first. Parts follow by their bytes: the largest, and others from a fifth of the whole on.
 * A growth comes before memory in use and memory outside jemalloc; and before waste only if what
 * it adds is more: within a minute if it was seen for a second, within ten at most. Noise
 * within a second never hides waste that stays.
 */
size_t explain_rank(const struct explain_amounts *amounts, enum explain_headline order[HEADLINES]);

/* What the step depends on. Shares are of the RSS, 0 to 1; 0 also if they are not known. */
struct explain_facts {
    bool readable; /* its memory may be read */
    bool callable; /* a call is possible: nothing forbids an attach */
    bool halted;   /* stopped or frozen: it does not run */
    bool ended;    /* it is read from a core file */
    bool jemalloc; /* it has one */
    bool objects;  /* its records of live objects can be read */
    bool profile;  /* its profile was read, and has samples */
    bool sparse;   /* these stand for the lesser part of what is in use */
    bool few;      /* so little is in use that samples of it are chance */
    bool unclear;  /* how much of its memory is free: jemalloc's counts are old */
    bool counts;   /* it can have counts: not built without statistics */
    enum prof_verdict prof;
    enum rise_state rise;
    bool minor;        /* the growth comes after free memory among the facts */
    bool wasteful;     /* frag has something to say */
    double free_pages; /* pages without allocations, that a purge returns: as counted now */
    double slack;      /* free memory that no purge returns: in slabs, behind objects, retained */
    double outside;    /* outside jemalloc */
};

enum explain_step {
    STEP_PERMIT,  /* get the right to read it */
    STEP_LEAK,    /* it grows */
    STEP_PURGE,   /* much of it is in free pages */
    STEP_FRAG,    /* much of it is free space between allocations */
    STEP_DUMP,    /* it has a profile */
    STEP_RECORD,  /* it can profile */
    STEP_STATS,   /* its counts are old, or not known */
    STEP_PEEK,    /* its memory is in use, and it cannot profile */
    STEP_AGAIN,   /* it does not run: explain it again when it does */
    STEP_OUTSIDE, /* most of it is outside jemalloc: whether that grows */
    STEP_LOOK,    /* nothing else can be done: whether it grows slowly */
    STEP_CORE,    /* it has ended, and no more is known: what the core has of jemalloc */
    STEP_COUNT,
};

/* Shares from which free memory is the answer. */
#define EXPLAIN_FREE_PAGES 0.2
#define EXPLAIN_SLACK      0.25
#define EXPLAIN_OUTSIDE    0.5 /* what jemalloc knows is then not the answer */

/* Returns the most useful next step: the first in the order of the rules that applies. */
enum explain_step explain_decide(const struct explain_facts *facts);
