/* A read of a target while all its threads are stopped (inject/freeze.h). */
#pragma once

#include "run/attachment.h"

/* Runs while all threads are stopped; is repeated after FAULT_UNREADABLE. */
typedef fault_code (*frozen_action)(void *ctx, struct fault *fault);

/*
 * Stops all threads of the target, runs the action, and resumes them, in a separate
 * thread of the tool (run/apart.h). A thread that was stopped in the middle of a
 * change leaves a profile that cannot be read: then the threads run on for some
 * milliseconds, and the action is repeated, FROZEN_TIMES in all. Faults: those of
 * freeze_begin and of the action. A read that does not return while the threads are
 * stopped ends the tool after two seconds, which resumes them.
 */
enum { FROZEN_TIMES = 4 };

/*
 * While a thread does not stop, the others stand still for nothing. After so many
 * attempts for one profile (run/sampling.h), or so long in all attempts of the
 * attachment, frozen_run stops no thread any longer: FAULT_FREEZE_GIVEN_UP. An attempt
 * takes at most one second, so together they take at most two.
 */
enum { FROZEN_ATTEMPTS = 2, FROZEN_FAILED_NS = 950000000 };

fault_code frozen_run(struct attachment *attachment, frozen_action action, void *ctx,
                      struct frozen_summary *summary, struct fault *fault);
