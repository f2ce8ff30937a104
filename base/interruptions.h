/*
 * Ctrl-C, SIGTERM and SIGHUP, for loops over the bytes of others in layers that have no
 * deadline (attach/deadline.h). Such a loop ends when a signal comes while it runs: one
 * that came before may have asked for what the loop is part of, such as the end of a
 * recording.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Sets where the signals are counted; until then there are none. */
void interruptions_count_in(const volatile sig_atomic_t *counter);
sig_atomic_t interruptions(void);
/* Sets when such loops end without a signal, CLOCK_MONOTONIC ns; UINT64_MAX: never. Returns the
 * former value. */
uint64_t interruptions_end_at(uint64_t ns);
/* True: a signal has come since interruptions() was `begun`, or the time is over. */
bool interruptions_ended(sig_atomic_t begun);
