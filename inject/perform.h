/* The calls. Internal to inject/. */
#pragma once

#include "inject/call.h"

/* See injection_call. */
fault_code perform_calls(struct injection *injection, struct arch_call *calls, size_t count,
                         const struct intercept *intercept, struct fault *fault);

/* Before the frames are forged: decides what the thread calls last, on its own stack. */
void perform_plan_last(struct injection *injection);
/*
 * After the scratch area is unmapped: makes that call, if there is anything to
 * restore. *back: the thread is at the exit of a system call, and its registers
 * may be set. If it does not return in time, it is being cancelled, and is
 * resumed.
 */
fault_code perform_last(struct injection *injection, bool *back, struct fault *fault);

/* Restores the errno that direct calls may have changed (the trampoline does it itself). */
void perform_restore_errno(struct injection *injection);
