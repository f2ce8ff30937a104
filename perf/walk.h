/*
 * The calls of a thread, from a copy of its registers and of its stack: no thread is
 * stopped. Uses the call frame information of the mapped files; where there is none
 * (code of a JIT compiler, Go), the frame pointers.
 */
#pragma once

#include "elf/modules.h"
#include "perf/user_state.h"

enum { WALK_DEPTH_MAX = 128 };

/* How a walk ended. */
enum walk_end {
    WALK_COMPLETE, /* at the outermost call */
    WALK_CUT,      /* the copy of the stack ends, or the depth */
    WALK_LOST,     /* a caller is not known */
};

struct walker;

/*
 * NULL: out of memory. All three must outlive it; memory knows what does not change
 * (modules_tell_memory), or every walk reads it again. The modules are those of its start:
 * code that is mapped later is not known.
 */
struct walker *walker_new(const struct target *target, struct memory *memory,
                          const struct modules *modules);
void walker_free(struct walker *walker);

/* Fills the calls, innermost first: the interrupted address, then return addresses. */
enum walk_end walker_walk(struct walker *walker, const struct user_state *state,
                          remote_addr calls[WALK_DEPTH_MAX], size_t *count);

/* Returns the stack pointer; 0: it was not sampled. */
remote_addr walk_stack_pointer(const struct user_state *state);

/*
 * Returns how many calls of the last walk were found by frame pointers, not by call
 * frame information: a function that keeps none may be missing before them.
 */
size_t walker_guesses(const struct walker *walker);
