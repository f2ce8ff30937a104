/*
 * The resumption of an interrupted thread: the state that is saved at the stop,
 * and the registers with which the thread resumes, set by the tool or without
 * it.
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
