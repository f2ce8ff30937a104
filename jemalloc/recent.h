/*
 * jemalloc's list of the most recent sampled allocations (5.3.0 prof_recent.c): each
 * with its thread, size, time and stack, and with those of its release. The list has
 * experimental.prof_recent.alloc_max records; more replace the oldest. A record takes
 * 80 bytes of the target, and keeps the records of its one or two stacks alive.
 *
 * While the list is on, a release of a sampled allocation that is in it takes a stack
 * trace of its own. Locks are taken one after the other, for a few instructions each;
 * alloc_dump moves the list aside and prints it without them (prof_recent_alloc_dump).
 */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/sink.h"

enum {
    RECENT_DEFAULT = 1000, /* records */
    RECENT_MAX = 100000,   /* 8 MB of records in the target, and some 100 MB of text */
};

/* The length of the list, and what it was before. */
struct recent_switch {
    int64_t former, wanted; /* records; -1: no limit */
    bool owed;              /* alloc_max may differ from the former value because of us */
    bool foreign;           /* another program has changed it since; it stays as it is */
    bool realtime;          /* times are of CLOCK_REALTIME, not of CLOCK_MONOTONIC_COARSE */
};

/*
 * Makes the list at least count records long; a longer one stays. Changes nothing
 * before build is judged: FAULT_RECENT_ABSENT, FAULT_RECENT_UNSAFE. FAULT_CTL_REFUSED.
 */
fault_code recent_begin(struct injection *injection, const struct instance *instance,
                        const struct build *build, int64_t count, struct recent_switch *list,
                        struct fault *fault);

/*
 * In one list of calls, which an orphan completes: appends the text of the list
 * (jemalloc/recent_list.h) to the sink, sets alloc_max back to the former value, which
 * drops the records, and reads it. Unless another program has changed it.
 * message_at: the address of malloc_message, 0 if it was not found.
 */
fault_code recent_take(struct injection *injection, const struct instance *instance,
                       struct recent_switch *list, remote_addr message_at, struct sink *sink,
                       struct fault *fault);

/* Only sets alloc_max back, in the same way. */
fault_code recent_restore(struct injection *injection, const struct instance *instance,
                          struct recent_switch *list, struct fault *fault);
