/*
 * Profiling switched on for a while: the former state of prof.active is saved,
 * and given back. What somebody else makes of it meanwhile is told and left.
 */
#pragma once

#include "jemalloc/activate.h"
#include "run/capture.h"
#include "run/pause.h"

struct sampling {
    struct prof_state former; /* build.text is "" until it has been read */
    bool active;              /* what prof.active is, as far as it is known */
    bool owed;                /* it may be another value than the former one, by us */
    bool foreign;             /* somebody else has changed it */
    bool foreign_noted;
    bool gone;             /* the target has ended, or is another program now */
    bool interrupted;      /* the operator wanted out before it was time */
    uint64_t began, ended; /* CLOCK_MONOTONIC ns: switched on and off again; 0: not yet */
    struct activation_layout layout;
    struct activation activation;
};

/*
 * In a hold: reads the state, refuses what cannot profile or be streamed,
 * switches on. Then sampling_begun, out of the hold, whatever came of it.
 */
fault_code sampling_begin(struct attachment *attachment, struct sampling *sampling,
                          struct fault *fault);
/*
 * Takes rc, that of the hold. If it was well, visits the threads that do not
 * sample by themselves (jemalloc/activate.h), and notes how many it did not reach.
 */
fault_code sampling_begun(struct attachment *attachment, struct sampling *sampling, fault_code rc,
                          struct fault *fault);

/* In a hold: is prof.active as we know it? Sets foreign. */
fault_code sampling_look(struct attachment *attachment, struct sampling *sampling,
                         struct fault *fault);
/* In a hold: switches it off though it is not the end; not if somebody else has changed it. */
fault_code sampling_stop(struct attachment *attachment, struct sampling *sampling,
                         struct fault *fault);
/* In a hold: gives the former state back, reads it back, unless somebody else has changed it. */
fault_code sampling_end(struct attachment *attachment, struct sampling *sampling,
                        struct fault *fault);

/*
 * Another hold, after sampling_wait: with a profile taken after the action,
 * unless capture is NULL. Where the process cannot be held just then (stopped,
 * traced), it is tried again until request.timeout_ns are over or a second
 * signal has come.
 */
fault_code sampling_hold(struct attachment *attachment, struct sampling *sampling,
                         struct capture *capture, held_action action, void *ctx,
                         struct fault *fault);

/* True if the target has ended or is another program; rc is the result of the run. */
bool sampling_is_gone(const struct attachment *attachment, struct sampling *sampling,
                      fault_code rc);
/*
 * The end of a run: if the former state is still owed, restores it in holds of
 * its own, until one has done it or, after half a minute, none could. Nothing
 * is owed to a target that is gone. Then attachment_close.
 */
fault_code sampling_settle(struct attachment *attachment, struct sampling *sampling,
                           struct fault *fault);

/*
 * Waits until then with no thread stopped and reports the progress.
 * PAUSE_INTERRUPTED sets interrupted.
 */
enum pause_end sampling_wait(struct attachment *attachment, struct sampling *sampling,
                             enum run_activity activity, uint64_t until);
/* After PAUSE_ENDED: FAULT_GONE and its like. */
fault_code sampling_lost(const struct attachment *attachment, struct fault *fault);

/* How long was sampled so far, or was until it ended. */
uint64_t sampling_ns(const struct sampling *sampling);
