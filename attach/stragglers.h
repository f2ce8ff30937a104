/*
 * Threads that are attached and run: they did not come to a stop in time, or a
 * call in them has not ended. PTRACE_DETACH wants a stop (ptrace(2)), so they
 * cannot be let go at once; the kernel does that when the tool ends. A tool that
 * lives on must do it itself, as soon as they stop: they would wait for ever.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum { STRAGGLERS_MAX = 64, STRAGGLERS_LOOK_NS = 5000000 };

/* Remembers a thread that was left attached. */
void stragglers_add(pid_t tid);
/* Is it one of them still? */
bool stragglers_has(pid_t tid);
/*
 * Lets those go that have stopped meanwhile. True: there are none any more.
 * Until then to be called every STRAGGLERS_LOOK_NS, by the thread that attached.
 */
bool stragglers_release(void);
