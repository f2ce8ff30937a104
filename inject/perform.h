/* The calls themselves. Internal to inject/. */
#pragma once

#include "inject/call.h"

/* See injection_call. */
fault_code perform_calls(struct injection *injection, struct arch_call *calls, size_t count,
                         const struct intercept *intercept, struct fault *fault);

/* Before the frames are forged: what the thread calls last, on its own stack. */
void perform_plan_last(struct injection *injection);
/*
 * When the scratch area is gone: makes that call, if there is anything to give
 * back. back: it stands at a system call's exit, and its registers may
 * be set. If it does not come back within the time, it is being cancelled, and
 * has been let go.
 */
fault_code perform_last(struct injection *injection, bool *back, struct fault *fault);

/* Puts back the errno that direct calls may have changed (the trampoline does it itself). */
void perform_restore_errno(struct injection *injection);
