/*
 * Stopping one thread at a safe point: one stop of one thread, which decides whether a call can
 * be made in this thread, at this point; and the search, which tries one thread after the other.
 */
#pragma once

#include "inject/call.h"
#include "inject/candidates.h"

/* Safe, unsafe (try another), or a fault that ends the search. */
enum attempt { ATTEMPT_SAFE, ATTEMPT_UNSAFE, ATTEMPT_FAULT };

/*
 * Stops a thread and judges it. ATTEMPT_SAFE: it is stopped and unchanged, and
 * its registers are in injection->original. ATTEMPT_UNSAFE: it runs again, and
 * injection->summary has the reason why it was not used. ATTEMPT_FAULT: it runs
 * again, and *fault is the reason why trying others is useless.
 */
enum attempt attempt_thread(struct injection *injection, const struct ranked *ranked,
                            struct fault *fault);

/* Fills *fault with the result of the stops: FAULT_NO_SAFE_POINT or FAULT_NO_UNWINDER. */
fault_code attempt_none(const struct injection *injection, struct fault *fault);

/*
 * Stops threads, one at a time and for microseconds, until one is at a safe
 * point. Then injection->session has that thread stopped, injection->original,
 * fp, mask and summary are filled, and the resume state is determined.
 */
fault_code acquire_thread(struct injection *injection, struct fault *fault);
