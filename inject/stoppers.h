/*
 * Programs that stop their own threads by signals.
 *
 * Garbage collectors: libgc (Boehm, Demers, Weiser), D's druntime, Mono, SBCL. The collecting
 * thread sends every other thread a signal and waits until each
 * has answered from its signal handler; the handlers wait until the world is
 * resumed. A thread may be interrupted there with a lock of the allocator held.
 * If our thread waited for that lock with the collector's signals blocked,
 * neither would ever end; with them unblocked, the collector would look for
 * pointers on a stack that is not the thread's. So such a process gets no call.
 *
 * Others: crash reporters, thread dumpers, small runtimes. Such a program has a handler for a
 * signal that is meant for threads, and stopped threads wait in
 * it. One that is seen so gets no call: the call might wait for a lock whose owner is stopped,
 * while the program waits for the thread that makes the call. Internal to inject/.
 */
#pragma once

#include "inject/call.h"

/* FAULT_UNSUPPORTED: the process has such a collector, and a call could hang it. */
fault_code collectors_refuse(const struct modules *modules, const struct target *target,
                             struct memory *memory, struct fault *fault);

/*
 * Of the signals that a process handles, returns those by which it might stop its threads:
 * not those that concern the whole process (SIGTERM, SIGCHLD, SIGALRM, ...), which every
 * program handles, and none if it handles every signal, as Go's runtime does.
 */
uint64_t stoppers_signals(uint64_t caught);

/*
 * Looks before a stop whether a thread waits in the handler of such a signal: FAULT_STOPS_THREADS.
 * Stops none. If the last watch was more than a second ago (*watched_at, CLOCK_MONOTONIC ns; 0:
 * never), it watches the threads for 50 ms. FAULT_INTERRUPTED and FAULT_NO_SAFE_POINT: meanwhile
 * the operator, or the deadline, has ended the search.
 */
fault_code stoppers_refuse(const struct injection_env *env, uint64_t *watched_at,
                           struct fault *fault);
