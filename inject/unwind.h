/*
 * The second proof: unwinds a stopped thread to its outermost frame.
 *
 * A scan of the stack also finds words that a finished call left behind. Call
 * frame information shows which return addresses are in use; where it is
 * missing, the code does (inject/ways.h). A frame found by guessing is no proof.
 * A walk that ends before the outermost frame proves only what is below.
 */
#pragma once

#include "base/interruptions.h"
#include "inject/safepoint.h"

struct unwinder;

/*
 * Loads libunwind; this takes about 1 ms, so it is never done while a thread is
 * stopped. NULL: it is not installed, or out of memory. All three must
 * outlive it.
 */
struct unwinder *unwinder_new(struct memory *memory, const struct modules *modules,
                              const struct deadline *deadline);
void unwinder_free(struct unwinder *unwinder);

/*
 * Walks the frames of a stopped thread whose stack ends at stack_end. Returns
 * PROOF_SAFE; PROOF_PC or PROOF_STACK with the frame's address; PROOF_UNWIND
 * if the walk could not be completed: none of the frames below evidence.rest is
 * forbidden; or PROOF_EXHAUSTED, with the pc of the frame where the walk was given up.
 * Its work and memory are bounded whatever the target holds, and it ends at the
 * deadline and on Ctrl-C. evidence.frames is the number of frames.
 */
struct evidence unwinder_prove(struct unwinder *unwinder, const struct plan *plan,
                               const arch_regs *regs, remote_addr stack_end);
