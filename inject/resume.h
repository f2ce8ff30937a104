/*
 * How an interrupted thread goes on: what is saved of it at the stop, and the
 * registers with which it resumes, by the tool's hand or without it.
 */
#pragma once

#include "inject/call.h"

/*
 * Remembers which system call a stop has interrupted; original has been read. A thread on its way
 * into restart_syscall(2) is put back to where the kernel will choose that again.
 */
void resume_note_sleep(struct injection *injection);

/*
 * Fills original, fp, mask and eintr_by_stop of a thread at its event stop;
 * original has been read already. False with errno.
 */
bool resume_save(struct injection *injection);

/*
 * The registers for the frame: the kernel will not look at its restart codes,
 * so a call that the stop interrupted is made again from user space.
 */
void resume_by_frame(struct injection *injection, arch_regs *regs);

/*
 * The registers for the tool's own ending: restart codes are left to the
 * kernel, which restarts the call after the detach, with the time that
 * remains, or delivers a signal first.
 */
void resume_by_tool(struct injection *injection, arch_regs *regs);

/*
 * Lets a thread go that was only looked at. An EINTR that the stop alone
 * caused is taken back.
 */
void resume_untouched(struct injection *injection);
