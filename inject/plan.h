/*
 * The facts about a target that a forged call needs and that can be found
 * without stopping it: the code that it borrows, and the code in which no
 * thread may be interrupted.
 */
#pragma once

#include "elf/eh_frames.h"
#include "elf/modules.h"
#include "inject/arch.h"

enum {
    PLAN_AVOID_MAX = 4,
    PLAN_RESTORERS_MAX = 4,
    REALTIME_FIRST = 34, /* SIGRTMIN of glibc */
    MUSL_SYNCCALL =
        34, /* musl: src/internal/pthread_impl.h; setuid and the like stop all threads */
};

/* A function that an allocator calls, and that another module than the C library defines. */
struct interposed {
    const char *name; /* static text; NULL: none has been found */
    remote_addr function;
};

/*
 * Restartable sequences (inject/resume.h): facts for kernels that do not report where a thread has
 * registered them.
 */
struct rseq_plan {
    bool needed;     /* this kernel does not report it */
    bool told;       /* the C library has registered an area for each thread */
    int64_t offset;  /* of that area from the thread pointer */
    bool impossible; /* no code has the signature that precedes each abort handler */
};

struct plan {
    struct arch_gadgets gadgets;
    remote_addr errno_location; /* address of the C library's __errno_location; 0: not found */
    remote_addr setcancelstate; /* address of its pthread_setcancelstate; 0: not found */
    remote_addr setcanceltype;  /* address of its pthread_setcanceltype; 0: not found */
    remote_addr restorers[PLAN_RESTORERS_MAX]; /* in addition to gadgets.sigreturn */
    size_t restorer_count;
    struct eh_frames frames; /* of a static program without .eh_frame_hdr; otherwise empty */
    struct rseq_plan rseq;
    bool musl; /* the C library is musl, which stops all threads by a signal: MUSL_SYNCCALL */
    struct interposed interposed;
    struct code_ranges forbidden;      /* a thread whose stack leads into these is not used */
    const char *avoid[PLAN_AVOID_MAX]; /* names of threads that are never used; static texts */
    size_t avoid_count;
};

/*
 * Finds the gadgets and forbids the dynamic loader, the unwinders, and the
 * functions for fork, threads and dlopen of the C library and of every other
 * module. FAULT_UNSUPPORTED if the target has no usable gadget, or has a
 * garbage collector that stops its threads (inject/stoppers.h). plan_free
 * releases the plan.
 */
fault_code plan_make(struct plan *plan, const struct modules *modules, const struct target *target,
                     struct memory *memory, struct fault *fault);
/* Forbids more code; call plan_seal afterwards. what is static text for messages. */
fault_code plan_forbid(struct plan *plan, remote_addr start, remote_addr end, const char *what,
                       struct fault *fault);
void plan_avoid_thread(struct plan *plan, const char *comm);
void plan_seal(struct plan *plan);
/* True if addr is in the first len bytes of a signal restorer. */
bool plan_in_restorer(const struct plan *plan, remote_addr addr, size_t len);
/* True if addr is where a signal handler returns to. */
static inline bool plan_is_restorer(const struct plan *plan, remote_addr addr)
{
    return plan_in_restorer(plan, addr, 1);
}
void plan_free(struct plan *plan);
