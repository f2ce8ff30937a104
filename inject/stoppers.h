/*
 * Programs that stop their own threads by signals and are no known garbage collector
 * (inject/collectors.h): crash reporters, thread dumpers, small runtimes.
 *
 * Such a program is known by a handler for a signal that is meant for threads. In its threads
 * a call runs on the thread's own stack where that is possible, and a signal is unblocked once
 * the thread waits in the call while the signal waits for it (inject/run.c). The thread that
 * stops the others must not make the call while they are stopped: one of them may own a lock
 * of the allocator. Internal to inject/.
 */
#pragma once

#include "inject/call.h"

/*
 * Of the signals that a process handles, returns those by which it might stop its threads:
 * not those that concern the whole process (SIGTERM, SIGCHLD, SIGALRM, ...), which every
 * program handles, and none if it handles every signal, as Go's runtime does.
 */
uint64_t stoppers_signals(uint64_t caught);

/*
 * Before a stop of the thread: true if another one waits in the handler of such a signal, or may
 * be about to. Also true if the thread itself waits in one. (A signal that only waits for the
 * thread is let in during the call.)
 */
bool stoppers_before(const struct injection *injection, pid_t tid);

/* The same of the thread that is stopped, unless it has slept ever since stoppers_before. */
bool stoppers_held(const struct injection *injection);
