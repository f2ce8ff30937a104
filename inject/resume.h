/*
 * The resumption of an interrupted thread: the state that is saved at the stop,
 * and the registers with which the thread resumes, set by the tool or without
 * it.
 *
 * Restartable sequences: a thread that is interrupted in one must continue at
 * its abort handler. Linux 5.13 and later report where a thread has registered them. On older
 * kernels the C library does, since glibc 2.35; if it does not, a thread is
 * used only in a system call, which no sequence may contain, or if the process
 * has no code that can be a sequence.
 */
#pragma once

#include "inject/call.h"

/*
 * Records which system call a stop has interrupted; original has been read. A
 * thread that is about to execute restart_syscall(2) is put back to where the
 * kernel chooses that call again.
 */
void resume_note_sleep(struct injection *injection);

/*
 * Fills original, fp, mask and eintr_by_stop of a thread at its event stop;
 * original has been read already. False with errno.
 */
bool resume_save(struct injection *injection);

/*
 * Fills the registers for the frame: the kernel does not evaluate its restart
 * codes there, so a call that the stop interrupted is repeated from user space.
 */
void resume_by_frame(struct injection *injection, arch_regs *regs);

/*
 * Fills the registers for the end by the tool: restart codes are left to the
 * kernel, which restarts the call after the detach, with the remaining time, or
 * delivers a signal first.
 */
void resume_by_tool(struct injection *injection, arch_regs *regs);

/* Resumes a thread that was only inspected. Undoes an EINTR that only the stop has caused. */
void resume_untouched(struct injection *injection);

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
