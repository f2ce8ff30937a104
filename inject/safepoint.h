/*
 * A thread that provably holds none of the locks a call might need.
 *
 * The allocator's locks are not recursive. A frame inside the allocator, the
 * loader, fork or an unwinder leaves a return address on the stack; a stopped
 * thread whose pc is outside, and on whose used stack no such address lies, is
 * in none of them. Nothing else counts as proof.
 */
#pragma once

#include "attach/memory.h"
#include "inject/plan.h"

enum proof {
    PROOF_SAFE,
    PROOF_PC,            /* it runs in forbidden code */
    PROOF_STACK,         /* a return address into forbidden code lies on its stack */
    PROOF_HANDLER,       /* a signal handler runs: what it interrupted may lie elsewhere */
    PROOF_FOREIGN_STACK, /* the stack pointer is not on the thread's own stack */
    PROOF_NO_ROOM,       /* too little stack mapped below for the frames */
    PROOF_TOO_LONG,      /* more stack in use than is scanned */
    PROOF_NO_TLS,        /* no thread of the C library */
    PROOF_UNREADABLE,    /* its stack could not be read */
    PROOF_UNWIND,        /* its frames could not be followed to the outermost */
    PROOF_COLLECTOR,     /* it may have stopped the others for a garbage collector */
    PROOF_ENDING,        /* its function has returned, and the C library is ending it */
    PROOF_MAYBE_ENDING,  /* whether that is so, only unwinding can tell */
    PROOF_RSEQ,          /* it may be in a restartable sequence, which only the kernel can tell */
    PROOF_CLOSING,       /* it waits in close(2), which a stop would cut short: not stopped */
    PROOF_NO_STATUS,     /* what the kernel enforces on it could not be read */
    /* inject/bounds.h */
    PROOF_STRICT,       /* strict seccomp */
    PROOF_SHADOW_STACK, /* x86 CET */
    PROOF_DISPATCH,     /* syscall user dispatch is on */
    PROOF_MAY_DISPATCH, /* it may be on, and the kernel does not tell */
    PROOF_FILTERED,     /* it has more seccomp filters than others of its process */
};

struct evidence {
    enum proof proof;
    remote_addr address; /* PROOF_PC: pc; PROOF_STACK: the word; else 0 */
    const char *what;    /* the forbidden range's name, or NULL */
    size_t scanned;      /* bytes of stack */
    unsigned frames;     /* unwound; 0: the scan was proof enough, or nothing was */
    remote_addr inner;   /* pc of the last frame but one; 0: there is none, or no walk to the end */
    bool inner_exact;    /* it is where the thread stands, or was interrupted; else after a call */
};

enum { SAFEPOINT_SCAN_MAX = 8 << 20 }; /* bytes of stack, about 1 ms */

struct unwinder;

/*
 * Judges a stopped thread: by the scan, and by unwinding where that is not
 * clean, if walk_unclean, and to show that a thread other than the first is not
 * ending. room is what must be mapped below its stack pointer, in bytes.
 * main_thread: its stack is the kernel's [stack].
 */
struct evidence safepoint_prove(const struct plan *plan, const struct modules *modules,
                                struct memory *memory, struct unwinder *unwinder, bool walk_unclean,
                                const arch_regs *regs, bool main_thread, size_t room);

/*
 * A look at a thread that is asleep with this stack pointer and pc, and was not stopped: what the
 * scan finds from there to the end of the mapping. No proof, for it may wake at any moment, and
 * PROOF_STACK may be another stack's in the same mapping.
 */
struct evidence safepoint_look(const struct plan *plan, const struct modules *modules,
                               struct memory *memory, remote_addr sp, remote_addr pc);

/* Is it a verdict that unwinding might overturn? unwinder may be NULL until then. */
bool safepoint_wants_unwinder(enum proof proof);

/* One line for messages, without the address. */
const char *proof_text(enum proof proof);
