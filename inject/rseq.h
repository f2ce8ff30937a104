/*
 * Restartable sequences: inside one a thread must go on at its abort handler.
 *
 * Linux 5.13 and later tell where a thread has registered them. On older ones the C library does,
 * from glibc 2.35 on; where it does not, a thread is used only in a system call, which no sequence
 * may contain, or if no code of the process can be one.
 */
#pragma once

#include "elf/modules.h"
#include "inject/arch.h"

/* What can be learned without a stop, for kernels that do not tell. */
struct rseq_plan {
    bool needed;     /* this kernel does not tell */
    bool told;       /* the C library has registered an area for each thread */
    int64_t offset;  /* of that area from the thread pointer */
    bool impossible; /* no code has the signature that stands before each abort handler */
};

/* On a kernel that tells there is nothing to learn. */
void rseq_plan_make(struct rseq_plan *plan, const struct modules *modules,
                    const struct target *target, struct memory *memory);
void rseq_plan_learn(struct rseq_plan *plan, const struct modules *modules,
                     const struct target *target, struct memory *memory);
/* By its release, as uname(2) has it; true also for one that cannot be read. */
bool rseq_kernel_tells(const char *release);

/*
 * For a thread at its first stop, since the first resume clears the kernel's record: sets *abort
 * to the abort handler if regs are inside a sequence, to 0 if they are not. False: it cannot be
 * told.
 */
bool rseq_look(const struct rseq_plan *plan, struct session *session, struct memory *memory,
               const arch_regs *regs, remote_addr *abort);
