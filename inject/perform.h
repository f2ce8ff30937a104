/*
 * The calls, and how a stopped thread runs from one system call stop to the next. Internal to
 * inject/: the callers are responsible for the thread's registers.
 */
#pragma once

#include "inject/call.h"

/* Before the frames are forged: decides what the thread calls last, on its own stack. */
void perform_plan_last(struct injection *injection);
/*
 * After the scratch area is unmapped: makes that call, if there is anything to
 * restore. *back: the thread is at the exit of a system call, and its registers
 * may be set. If it does not return in time, it is being cancelled, and is
 * resumed.
 */
fault_code perform_last(struct injection *injection, bool *back, struct fault *fault);

/*
 * Lets the thread make the one system call that its registers describe, from
 * before its entry or from that entry, to its exit. *result as the kernel
 * returns it: -errno if it failed.
 */
fault_code run_syscall(struct injection *injection, bool at_entry, int64_t *result,
                       struct fault *fault);

/* Sets the fault of a ptrace request or a memory access that failed with errno. */
fault_code run_broken(const struct injection *injection, const char *what, struct fault *fault);

/*
 * Returns the signals that are blocked during the call; musl's own
 * is unblocked while a called function runs.
 */
uint64_t perform_call_mask(void);
