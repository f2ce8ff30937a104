/*
 * What happens during a run, reported as data to its user: no layer below the
 * user prints. Every function may be NULL, and so may a pointer to the table.
 */
#pragma once

#include "base/fault.h"
#include "profile/symbols/symbols.h"

enum run_note_kind {
    /* of sampling */
    NOTE_NEW_THREADS_SILENT,  /* prof.thread_active_init is false: new threads are not sampled */
    NOTE_THREADS_MISSED,      /* count of total threads do not sample; version */
    NOTE_THREADS_UNSURE,      /* count of total threads may not sample: this build cannot show it */
    NOTE_ALREADY_ACTIVE,      /* prof.active was true before */
    NOTE_SWITCHED_ON,         /* prof.active: false -> true */
    NOTE_SHARED,              /* prof.active is true because of other runs of the tool */
    NOTE_SWITCHED_BY_ANOTHER, /* prof.active is now `active`, and stays so */
    NOTE_CHILDREN_LEFT,       /* children: prof.active is true in them, or may be */
    NOTE_HOLD_RETRIED,        /* fault: why no thread could be stopped yet */
    NOTE_RESTORE_RETRIED,     /* fault: why prof.active is not `active` again yet */
    NOTE_NOTHING_SAMPLED,     /* the profile has no sample; count: the period in bytes */
    NOTE_NOT_SETTLED,         /* it samples while it settles: another run does */
    NOTE_PROFILES_SKIPPED,    /* a series: writing takes longer than its interval */
    NOTE_KEPT,                /* a profile of count bytes is kept for the end of the process */
    NOTE_NOT_KEPT,            /* fault: why none can be kept; more: an older one is */
    /* of a way */
    NOTE_UNREADABLE, /* fault: why the profile or the counts are not read from memory, but by a call
                      */
    NOTE_CALL_NEEDED, /* why prof.active is not switched by its byte, but by a call */
    /* of a profile that is written in some format */
    NOTE_PROFILE_CUT,       /* it ends within a line */
    NOTE_PROFILE_ODD_LINES, /* count lines were skipped */
    NOTE_PROFILE_ODD_MAPS,  /* count lines of MAPPED_LIBRARIES were skipped, at least in part */
    NOTE_PROFILE_NO_MAPS,   /* it has no MAPPED_LIBRARIES */
    NOTE_FILTER_UNMATCHED,  /* count: FILTER_FOCUS or the like matches no call of any stack */
    NOTE_PROFILE_DOUBT,     /* why: its title with the doubt, where the format has no title */
    NOTE_PROFILES_OVERLAP,  /* profiles that are added up may be of one process */
    NOTE_PROFILE_EMPTY,     /* it has no sample; count: the period in bytes, 0: unknown */
    NOTE_NAMES_MISSING,     /* coverage: of one module */
    NOTE_NAMES_UNREAD,      /* coverage: of one module, with a loss; NULL: count more lack names */
    NOTE_SPLIT_MISSING,     /* coverage: of one module */
    NOTE_PERF_MAP_UNUSED,   /* count: an errno */
    NOTE_STACKS_TRUNCATED,  /* count stacks are as deep as jemalloc keeps them */
    NOTE_PERIODS_DIFFER,    /* count bytes in the profile, total bytes in its base */
    NOTE_OUTPUT_SLOW,       /* the file was written and flushed to disk in count ns */
};

struct children; /* run/children.h */

struct run_note {
    enum run_note_kind kind;
    bool active;
    bool more; /* of NOTE_NOT_KEPT */
    uint64_t count, total;
    const char *version; /* of jemalloc */
    const char *why;     /* a clause */
    const struct fault *fault;
    const struct symbols_coverage *coverage;
    const struct children *children;
};

enum run_activity { RUN_RECORDING, RUN_SETTLING, RUN_GROWING };

struct run_progress {
    enum run_activity activity;
    uint64_t done_ns, total_ns; /* total_ns UINT64_MAX: until it is interrupted */
    uint64_t rss_bytes;         /* of the target; 0: unknown */
};

struct run_events {
    void *ctx;
    /* Something that the operator should know. Never called while a thread is stopped. */
    void (*note)(void *ctx, const struct run_note *note);
    /* About once a second during a wait; progress NULL: the wait is over. */
    void (*progress)(void *ctx, const struct run_progress *progress);
    /*
     * Called in another thread if a read of the target does not return
     * (run/stall_guard.h). Returns the exit status with which the process then
     * ends. If it is NULL, stalls are not detected.
     */
    int (*stalled)(void *ctx, const struct fault *fault);
    /*
     * Returns the static text that is written to stderr if a signal ends the
     * process while prof.active of pid may be changed. It must neither print
     * nor wait: other runs of the tool may wait for this one.
     */
    const char *(*farewell)(void *ctx, pid_t pid);
};
