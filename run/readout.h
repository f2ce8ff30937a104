/*
 * Profiles that are read out of the memory of a target (jemalloc/reader/reader.h),
 * without a call and without stopping it: also of one that is traced, stopped or
 * frozen.
 */
#pragma once

#include "run/attachment.h"

/*
 * For profiles, in the way that request.way allows. Finds the profile in memory:
 * attachment->reads. If it cannot be proven there, reports NOTE_UNREADABLE and
 * does as attachment_open, unless the way is WAY_MEMORY. WAY_CALL: as
 * attachment_open. Pointers in the request must stay valid until
 * attachment_close, which is needed after a failure, too.
 */
fault_code readout_open(struct attachment *attachment, const struct attach_request *request,
                        struct fault *fault);

/* After attachment_find: finds the profile in memory, unless that has been done. */
fault_code readout_find(struct attachment *attachment, struct fault *fault);

/* With attachment->reads: reads the state of profiling from memory; some of it may be unknown. */
fault_code readout_state(struct attachment *attachment, struct prof_state *state,
                         struct fault *fault);

/*
 * With attachment->reads: appends one profile to the sink, without its mappings,
 * and counts it in attachment->read. Between two of them attachment_renew is
 * needed. FAULT_UNREADABLE: readout_call_instead may help. FAULT_GONE,
 * FAULT_EXECED: it ended meanwhile; FAULT_TOO_LARGE: the sink is full;
 * FAULT_INTERRUPTED: a signal came before.
 */
fault_code readout_take(struct attachment *attachment, struct sink *sink, struct fault *fault);

/*
 * After FAULT_UNREADABLE in *fault: from now on profiles are taken by calls.
 * Reports NOTE_UNREADABLE and makes the plan. With WAY_MEMORY returns that fault.
 */
fault_code readout_call_instead(struct attachment *attachment, struct fault *fault);

/*
 * Runs an action that reads or writes prof.active (run/sampling.h). With
 * attachment->reads, and if prof.active is a proven byte of the memory, no thread
 * is stopped: the action sees attachment->switches. Otherwise as readout_hold.
 * FAULT_UNWRITABLE: WAY_MEMORY, and it is not proven.
 */
fault_code readout_act(struct attachment *attachment, held_action action, void *ctx,
                       struct fault *fault);
/* Runs an action in a hold, for which the plan is made first if there is none. */
fault_code readout_hold(struct attachment *attachment, held_action action, void *ctx,
                        struct fault *fault);
