/* Stopping one thread at a safe point. */
#pragma once

#include "inject/call.h"

/*
 * Stops threads, one at a time and for microseconds, until one is at a safe
 * point. Then injection->session is stopped there, injection->original,
 * fp, mask and summary are filled, and the resume state is worked out.
 */
fault_code acquire_thread(struct injection *injection, struct fault *fault);

/* What can be said of the thread that would be tried first without stopping any. */
struct preview {
    struct thread thread;
    size_t candidates;          /* threads that may be used */
    struct proc_syscall asleep; /* where it is, if it is asleep */
    struct evidence evidence;   /* asleep: what a look at its stack finds */
};

/* For --dry-run: nothing is stopped, nothing is written. */
fault_code acquire_preview(const struct injection_env *env, struct preview *preview,
                           struct fault *fault);
