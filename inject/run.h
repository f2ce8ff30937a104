/*
 * Running a held thread from one system call stop to the next. Internal to
 * inject/: the callers stand for what the thread's registers mean meanwhile.
 */
#pragma once

#include "inject/call.h"

/* To the next stop at a system call; signals and job control's stops are passed on. */
fault_code run_step(struct injection *injection, struct fault *fault);

/*
 * Lets the thread make the one system call that its registers ask for, from
 * before its entry or from that entry, to its exit. *result as the kernel
 * gives it: -errno if it failed.
 */
fault_code run_syscall(struct injection *injection, bool at_entry, int64_t *result,
                       struct fault *fault);

/* STAGE_LAST: opens the signals of a thread that does not come back from there. Else nothing. */
void run_open_last(struct injection *injection);

/* The fault of a ptrace request or a memory access that failed with errno. */
fault_code run_broken(const struct injection *injection, const char *what, struct fault *fault);

/* -4095 to -1 are errors (the system call ABI). */
bool run_is_error(int64_t result);
