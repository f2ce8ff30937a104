/* Stopping one thread at a safe point. */
#pragma once

#include "inject/call.h"

/*
 * Stops threads, one at a time and for microseconds, until one is at a safe
 * point. Then injection->session is stopped there, injection->original,
 * fp, mask and report are filled, and the resume state is worked out.
 */
enum fault_code acquire_thread(struct injection *injection, struct fault *fault);

/* The thread that would be tried first, without stopping any. For --dry-run. */
enum fault_code acquire_preview(const struct injection_env *env, struct thread *first,
                                size_t *count, struct fault *fault);
