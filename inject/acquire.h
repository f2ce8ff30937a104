/* Stopping one thread at a safe point. */
#pragma once

#include "inject/call.h"

/*
 * Stops threads, one at a time and for microseconds, until one is at a safe
 * point. Then injection->session has that thread stopped, injection->original,
 * fp, mask and summary are filled, and the resume state is determined.
 */
fault_code acquire_thread(struct injection *injection, struct fault *fault);

/* The thread that would be tried first, and what is known about it without a stop. */
struct preview {
    struct thread thread;
    size_t candidates;          /* number of threads that may be used */
    struct proc_syscall asleep; /* the system call it is in, if it is asleep */
    struct evidence evidence;   /* if it is asleep: the result of examining its stack */
};

/* For --dry-run: stops nothing and writes nothing. */
fault_code acquire_preview(const struct injection_env *env, struct preview *preview,
                           struct fault *fault);
