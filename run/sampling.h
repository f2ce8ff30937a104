/*
 * Switches profiling on for a while: saves prof.active and restores it. If
 * another program changes it in between, that is noted and left as it is.
 */
#pragma once

#include "run/access.h"
#include "run/activating.h"
#include "run/children.h"
#include "run/pause.h"
#include "run/peers.h"
#include "run/trigger.h"

struct sampling {
    struct prof_state former; /* build.text is "" until it has been read; see `shared` */
    bool active;              /* prof.active as last known */
    bool owed;                /* prof.active may differ from the former value because of us */
    bool shared;              /* it was true only because of other runs: former says false */
    bool left_on;             /* it stays true, because other runs need it; the last one restores */
    bool foreign;             /* another program has changed it */
    bool foreign_noted;
    unsigned kept; /* how often sampling_keep has switched it on again */
    struct peers peers;
    struct children children;     /* processes that the target forks meanwhile */
    struct dump_after after;      /* what the call of the last profile sets prof.active to */
    bool gone;                    /* the target has ended, or is another program now */
    uint64_t cut_short_ns;        /* the result is of so long before that was seen; 0: it is not */
    bool interrupted;             /* ended early by the operator */
    uint64_t began, ended;        /* CLOCK_MONOTONIC ns: switched on and off again; 0: not yet */
    uint64_t reported_until;      /* progress is that from began until then; 0: that of each wait */
    struct activation activation; /* the visits of threads at the beginning */
};

/*
 * After attachment_find: reads the state, fails if profiling is not possible, switches on, and
 * visits the threads that need it to sample (run/activating.h); notes how many were not reached.
 */
fault_code sampling_begin(struct attachment *attachment, struct sampling *sampling,
                          struct fault *fault);
/* Notes that it samples, once nothing is lost that is allocated after the note. */
void sampling_tell(const struct attachment *attachment, const struct sampling *sampling);
/*
 * Switches it on again if another program has switched it off. Then that is the former value.
 * Counts in `kept`.
 */
fault_code sampling_keep(struct attachment *attachment, struct sampling *sampling,
                         struct fault *fault);
/* True if prof.active is known to be true, by a read of its byte. */
bool sampling_is_on(struct attachment *attachment);

/*
 * The next three, after sampling_wait, repeat transient failures (stopped by job control, traced)
 * until request.timeout_ns have passed or a second signal comes. They set foreign if another
 * program has changed prof.active.
 */
fault_code sampling_profile(struct attachment *attachment, struct sampling *sampling,
                            struct capture *capture, struct fault *fault);
/*
 * Switches it off before the end, unless another program has changed it, or another run of the
 * tool samples the process, too (left_on).
 */
fault_code sampling_stop(struct attachment *attachment, struct sampling *sampling,
                         struct fault *fault);
/*
 * The end: takes the profile and then restores and reads back the former state, unless another
 * program has changed it. In this order, because what is allocated and freed in between would be
 * missing in a profile that comes after the end of the sampling. A call that takes the profile also
 * restores, should the tool die in it. If the profile is taken but prof.active cannot be
 * restored, it is still owed (sampling_settle).
 */
fault_code sampling_finish(struct attachment *attachment, struct sampling *sampling,
                           struct capture *capture, struct fault *fault);

/* True if the target has ended or is another program; rc is the result of the run. */
bool sampling_is_gone(const struct attachment *attachment, struct sampling *sampling,
                      fault_code rc);
/*
 * At the end of a run: if prof.active is not restored yet, restores it in
 * further holds, for at most 30 seconds. Nothing is owed to a target that is
 * gone. Then sampling_leave, and attachment_close.
 */
fault_code sampling_settle(struct attachment *attachment, struct sampling *sampling,
                           struct fault *fault);

/*
 * For a target that is gone, and in sampling_settle: notes in which children that were forked
 * meanwhile prof.active is true, unless that is done.
 */
void sampling_leave(struct attachment *attachment, struct sampling *sampling);

/*
 * Waits until then, or until the trigger is due unless it is NULL, with no thread
 * stopped, and reports the progress. PAUSE_INTERRUPTED sets interrupted.
 */
enum pause_end sampling_wait(struct attachment *attachment, struct sampling *sampling,
                             enum run_activity activity, uint64_t until, struct trigger *trigger);
/* The same until `over`, called ten times a second, is true. */
enum pause_end sampling_wait_for(struct attachment *attachment, struct sampling *sampling,
                                 enum run_activity activity, uint64_t until,
                                 bool (*over)(void *ctx), void *ctx);
/* After PAUSE_ENDED: sets FAULT_GONE or a more exact fault. */
fault_code sampling_lost(const struct attachment *attachment, struct fault *fault);

/* How long it has sampled, so far or in all. */
uint64_t sampling_ns(const struct sampling *sampling);
