/*
 * Until when to wait, and whether the operator wants out.
 *
 * A blocking waitpid(2) is the cheapest way to follow a tracee. So that it
 * ends at a deadline and at Ctrl-C, a timer interrupts it every 50 ms; no
 * order of signal and system call can then be missed.
 */
#pragma once

#include "base/fault.h"
#include "base/util.h"

#include <signal.h>

struct deadline {
    uint64_t at;                              /* CLOCK_MONOTONIC, nanoseconds */
    const volatile sig_atomic_t *interrupted; /* nonzero: the operator asked to stop; may be NULL */
    timer_t timer;
    bool armed;
};

/* Starts the ticking timer; uses SIGALRM. timeout is in nanoseconds from now. */
fault_code deadline_start(struct deadline *deadline, uint64_t timeout,
                          const volatile sig_atomic_t *interrupted, struct fault *fault);
void deadline_stop(struct deadline *deadline);

bool deadline_passed(const struct deadline *deadline);
bool deadline_interrupted(const struct deadline *deadline);
