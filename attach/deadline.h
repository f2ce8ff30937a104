/*
 * How long to wait, and whether the operator wants to stop.
 *
 * A blocking waitpid(2) is the cheapest way to follow a tracee. A timer interrupts
 * it every 50 ms, so that it ends at the deadline and on Ctrl-C whatever the order
 * of signal and system call.
 */
#pragma once

#include "base/fault.h"
#include "base/util.h"

#include <signal.h>

struct deadline {
    uint64_t at;                              /* CLOCK_MONOTONIC, nanoseconds */
    const volatile sig_atomic_t *interrupted; /* nonzero: the operator wants to stop; may be NULL */
    timer_t timer;
    bool armed;
};

/* Starts the ticking timer, which uses SIGALRM. timeout is in nanoseconds from now. */
fault_code deadline_start(struct deadline *deadline, uint64_t timeout,
                          const volatile sig_atomic_t *interrupted, struct fault *fault);
void deadline_stop(struct deadline *deadline);

bool deadline_passed(const struct deadline *deadline);
bool deadline_interrupted(const struct deadline *deadline);
/* Either of them. */
bool deadline_is_over(const struct deadline *deadline);
