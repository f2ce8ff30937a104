/*
 * Restartable sequences: a thread that is interrupted in one must continue at
 * its abort handler.
 *
 * Linux 5.13 and later report where a thread has registered them. On older
 * kernels the C library does, since glibc 2.35; if it does not, a thread is
 * used only in a system call, which no sequence may contain, or if the process
 * has no code that can be a sequence.
 */
#pragma once

#include "elf/modules.h"
#include "inject/arch.h"

/* Facts found without a stop, for kernels that do not report the area. */
struct rseq_plan {
    bool needed;     /* this kernel does not report it */
    bool told;       /* the C library has registered an area for each thread */
    int64_t offset;  /* of that area from the thread pointer */
    bool impossible; /* no code has the signature that precedes each abort handler */
};

/* If the kernel reports the area, there is nothing to find. */
void rseq_plan_make(struct rseq_plan *plan, const struct modules *modules,
                    const struct target *target, struct memory *memory);
void rseq_plan_learn(struct rseq_plan *plan, const struct modules *modules,
                     const struct target *target, struct memory *memory);
/*
 * True if a kernel of that release (uname(2)) reports the area; also true for
 * an unreadable release.
 */
bool rseq_kernel_tells(const char *release);

/*
 * For a thread at its first stop, since the first resume clears the kernel's
 * record: sets *abort to the abort handler if regs are in a sequence, to 0 if
 * they are not. False: it cannot be determined.
 */
bool rseq_look(const struct rseq_plan *plan, struct session *session, struct memory *memory,
               const arch_regs *regs, remote_addr *abort);
