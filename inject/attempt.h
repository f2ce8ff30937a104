/*
 * One stop of one thread: is it a thread, and at a place, where a call can be
 * made? inject/acquire.h asks so of one after the other.
 */
#pragma once

#include "inject/call.h"
#include "inject/candidates.h"

/* Safe, unsafe (try another), or a fault that ends the search. */
enum attempt { ATTEMPT_SAFE, ATTEMPT_UNSAFE, ATTEMPT_FAULT };

/*
 * Stops a thread and judges it. ATTEMPT_SAFE: it is stopped, its registers are
 * in injection->original, and nothing of it has changed. ATTEMPT_UNSAFE: it has
 * gone on, and injection->summary says why it was not used. ATTEMPT_FAULT: so it
 * has, and *fault says why there is no use in trying others.
 */
enum attempt attempt_thread(struct injection *injection, const struct ranked *ranked,
                            struct fault *fault);

/* Fills *fault with what the stops have shown: FAULT_NO_SAFE_POINT or FAULT_NO_UNWINDER. */
fault_code attempt_none(const struct injection *injection, struct fault *fault);
