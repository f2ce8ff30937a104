/*
 * The proof that a thread holds none of the locks that a call might need.
 *
 * The allocator's locks are not recursive. A frame in the allocator, the
 * loader, fork or an unwinder leaves a return address on the stack; a stopped
 * thread whose pc is outside them, and whose used stack contains no such
 * address, is in none of them. So is one whose frames are walked from the
 * innermost one on (inject/unwind.h), and whose stack contains no such address
 * above the frame where the walk ends. Nothing else counts as proof.
 */
#pragma once

#include "attach/memory.h"
#include "inject/plan.h"

enum proof {
    PROOF_SAFE,
    PROOF_PC,            /* it runs in forbidden code */
    PROOF_STACK,         /* a return address into forbidden code is on its stack */
    PROOF_HANDLER,       /* a signal handler runs: the interrupted code may be elsewhere */
    PROOF_FOREIGN_STACK, /* the stack pointer is not on the thread's own stack */
    PROOF_NO_SPACE,      /* too little stack mapped below for the frames */
    PROOF_TOO_LONG,      /* more stack in use than is scanned */
    PROOF_NO_TLS,        /* not a thread of the C library */
    PROOF_UNREADABLE,    /* its stack could not be read */
    PROOF_UNWIND,        /* its frames could not be followed to the outermost one */
    PROOF_EXHAUSTED,     /* following its frames took too much work */
    PROOF_SYNCCALL,      /* it may have stopped the others for its C library, musl */
    PROOF_ENDING,        /* its function has returned, and the C library is ending it */
    PROOF_MAYBE_ENDING,  /* only unwinding can determine whether it is ending */
    PROOF_RSEQ,          /* it may be in a restartable sequence, which only the kernel knows */
    PROOF_SYSCALL,       /* it sleeps in a system call that does not only wait: not stopped */
    PROOF_NO_STATUS,     /* its restrictions by the kernel could not be read */
    /* inject/candidates.h */
    PROOF_STRICT,       /* strict seccomp */
    PROOF_SHADOW_STACK, /* x86 CET */
    PROOF_DISPATCH,     /* syscall user dispatch is on */
    PROOF_MAY_DISPATCH, /* it may be on, and the kernel does not report it */
    PROOF_REALTIME,     /* it is a real-time thread, and the tool may have no such priority */
    PROOF_FILTERED,     /* it has more seccomp filters than others of its process */
};

struct evidence {
    enum proof proof;
    remote_addr address; /* PROOF_PC, _UNWIND, _EXHAUSTED: pc; PROOF_STACK: the word; otherwise 0 */
    const char *what;    /* the forbidden range's name, or NULL */
    size_t scanned;      /* bytes of stack */
    unsigned frames;     /* unwound; 0: the scan was sufficient, or no stack was unwound */
    remote_addr inner;   /* pc of the last frame but one; 0: none, or no walk to the end */
    remote_addr rest; /* PROOF_UNWIND: stack pointer of the frame where the walk ended; 0: none */
    bool unwalked;    /* the words were not clean, and the frames were not followed */
    bool unfollowed;  /* the same, because they cannot be, for lack of information */
    bool inner_exact; /* inner is where the thread is, or was interrupted; otherwise after a call */
};

enum { SAFEPOINT_SCAN_MAX = 8 << 20 }; /* bytes of stack, about 1 ms */

struct unwinder;

/*
 * Judges a stopped thread: by the scan; by unwinding, if the scan is not clean
 * and walk_unclean is set; and by unwinding to show that a thread other than
 * the first is not ending. needed: bytes that must be mapped below its stack
 * pointer. main_thread: its stack is the kernel's [stack].
 */
struct evidence safepoint_prove(const struct plan *plan, const struct modules *modules,
                                struct memory *memory, struct unwinder *unwinder, bool walk_unclean,
                                const arch_regs *regs, bool main_thread, size_t needed);

/* True if unwinding might change this result. unwinder may be NULL until then. */
bool safepoint_wants_unwinder(enum proof proof);

/* Returns one line for messages, without the address. */
const char *proof_text(enum proof proof);
