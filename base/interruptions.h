/*
 * The signals that ask the tool to end, for loops over the bytes of others in layers that
 * have no deadline (attach/deadline.h). Such a loop ends when a signal comes while it runs:
 * one that came before may have asked for what the loop is part of, such as the end of a
 * recording.
 */
#pragma once

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
