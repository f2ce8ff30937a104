/* Internal to the walk of a stack: perf/walk.c, perf/guess.c. */
#pragma once

#include "perf/cfi.h"
#include "perf/walk.h"

/* A thread in one of its calls: the registers that are known there. */
struct frame {
    uint64_t regs[MACHINE_REGS]; /* by DWARF number */
    uint64_t known;              /* bit i: regs[i] */
    bool exact; /* pc is where the thread was interrupted; otherwise after a call */
};

enum step { STEP_DONE, STEP_OUTERMOST, STEP_CUT, STEP_LOST };

enum { RETURN_BITS = 12, CALLED_BITS = 10, WALKS_KEPT = 4096, WORDS_OF_WALK = 4096 };

/* Of one walk; one without a hostile program's information takes some dozens. */
enum { READS_OF_WALK = 512, EXPRESSIONS_OF_WALK = 256 };

/* What is known of a word of the stack that may be a return address. */
struct return_slot {
    remote_addr addr;   /* 0: empty */
    remote_addr target; /* the function that was called; 0: unknown */
    remote_addr jump;   /* where this function goes on without a frame; 0: nowhere */
    bool good;          /* code, behind a call, or the next one */
    bool handler_end;   /* the C library's return from a signal handler */
};

/* Where the return address of a function without call frame information has been found. */
struct call_slot {
    remote_addr pc;     /* 0: empty */
    uint64_t distance;  /* of the word from the stack pointer */
    remote_addr target; /* start of the function */
};

struct walker {
    const struct target *target;
    struct memory *memory;
    const struct modules *modules;
    struct rows *rows; /* the call frame information by address */
    const struct user_state *state;
    struct frame frame;
    remote_addr stack_start, stack_end; /* of the copy */
    bool cut;                           /* a word behind the copy was needed */
    size_t guesses;
    unsigned words_left; /* that may be looked at as return addresses in this walk */
    unsigned reads_left; /* of words that are not in the copy */
    unsigned expressions_left;
    /* Kept for some walks: a JIT compiler may put other code to an address. */
    struct return_slot returns[1 << RETURN_BITS];
    struct call_slot called[1 << CALLED_BITS];
    unsigned walks;
};

static inline bool frame_get(const struct frame *frame, unsigned reg, uint64_t *value)
{
    if (reg >= MACHINE_REGS || !(frame->known >> reg & 1))
        return false;
    *value = frame->regs[reg];
    return true;
}

static inline void frame_set(struct frame *frame, unsigned reg, uint64_t value)
{
    frame->regs[reg] = value;
    frame->known |= (uint64_t)1 << reg;
}

/*
 * Reads a word of the copy, or one that cannot have changed since. False: neither. ctx is
 * the walker.
 */
bool walker_word(void *ctx, remote_addr addr, uint64_t *value);

/*
 * Goes to the caller, whose return address is in the register `link`. The stack grows
 * downwards, so a caller's stack pointer is higher; it is the same only if the interrupted
 * function has used no stack. signal: the caller was interrupted, perhaps on another stack.
 */
enum step walker_leave(struct walker *walker, struct frame *next, unsigned link, bool signal);

/* Goes to the caller of a function without call frame information (perf/guess.c). */
enum step walker_guess(struct walker *walker);

/* NULL: addr is no return address. Valid until the next call. */
const struct return_slot *walker_return(struct walker *walker, remote_addr addr);
