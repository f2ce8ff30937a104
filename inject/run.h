/*
 * Runs a stopped thread from one system call stop to the next. Internal to
 * inject/: the callers are responsible for the thread's registers.
 */
#pragma once

#include "inject/call.h"

/* Runs to the next stop at a system call; passes signals and stops of job control on. */
fault_code run_step(struct injection *injection, struct fault *fault);

/*
 * Lets the thread make the one system call that its registers describe, from
 * before its entry or from that entry, to its exit. *result as the kernel
 * returns it: -errno if it failed.
 */
fault_code run_syscall(struct injection *injection, bool at_entry, int64_t *result,
                       struct fault *fault);

/*
 * In STAGE_LAST: unblocks the signals of a thread that does not return from
 * there. Otherwise does nothing.
 */
void run_open_last(struct injection *injection);

/* Sets the fault of a ptrace request or a memory access that failed with errno. */
fault_code run_broken(const struct injection *injection, const char *what, struct fault *fault);

/* True for -4095 to -1, which are errors (the system call ABI). */
bool run_is_error(int64_t result);
