/*
 * What ends the tool's work early: the signals that ask it to end, and deadlines.
 *
 * Loops over the bytes of others in layers that have no deadline end when a signal comes while
 * they run: one that came before may have asked for what the loop is part of, such as the end of
 * a recording.
 */
#pragma once

#include "base/fault.h"
#include "base/util.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Adds the signals that end a process by default, as SIGINT and SIGTERM do. Not SIGKILL, those
 * of a fault of the process itself, SIGALRM, which the deadline uses, nor SIGPIPE and SIGXFSZ,
 * which are errors of write(2).
 */
void interruptions_add(sigset_t *set);
/*
 * Sets the handler of each, without SA_RESTART, or SIG_IGN. Left ignored are SIGHUP, as nohup(1)
 * starts a program, and SIGINT and SIGQUIT, as a shell without job control starts one with &.
 */
void interruptions_handle(void (*handler)(int));
/* Sets where the signals are counted; until then there are none. */
void interruptions_count_in(const volatile sig_atomic_t *counter);
sig_atomic_t interruptions(void);
/* Sets when such loops end without a signal, CLOCK_MONOTONIC ns; UINT64_MAX: never. Returns the
 * former value. */
uint64_t interruptions_end_at(uint64_t ns);
/* True: a signal has come since interruptions() was `begun`, or the time is over. */
bool interruptions_ended(sig_atomic_t begun);

/*
 * ---- deadlines: how long to wait, and whether the operator wants to stop ----
 *
 * A blocking waitpid(2) is the cheapest way to follow a tracee. A timer interrupts
 * it every 50 ms, so that it ends at the deadline and on Ctrl-C whatever the order
 * of signal and system call.
 */
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
