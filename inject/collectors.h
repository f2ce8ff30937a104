/*
 * Garbage collectors that stop the world by signals: libgc (Boehm, Demers,
 * Weiser) and D's druntime.
 *
 * The thread that collects sends every other one a signal, waits until each has
 * answered from the signal's handler, and the handlers wait until the world goes
 * on. A thread may be interrupted there with a lock of the allocator held. Were
 * the collector's signals blocked in a thread of ours that waits for that lock,
 * neither would ever end. So a call in such a process looks to the collector
 * like a signal handler of the program: it runs on the thread's own stack,
 * below the frames that hold its registers, where the collector looks for
 * pointers, and the collector's signals stay open. Neither handler allocates
 * (libgc: pthread_stop_world.c, GC_suspend_handler_inner; druntime:
 * core/thread, thread_suspendHandler).
 *
 * The thread that stops the world waits for nobody's answer but holds all the
 * others: it must not be the one that makes the call.
 */
#pragma once

#include "elf/modules.h"

#include <sys/types.h>

enum { COLLECTOR_VARIABLES = 4 };

struct collector {
    const char *name;    /* static text; NULL: the process has none */
    const char *refusal; /* why no call can be made; static text; NULL: it can */
    uint64_t defaults;   /* its signals where the variables say -1; bit n-1 is signal n */
    remote_addr variables[COLLECTOR_VARIABLES]; /* each holds the number of one, an int */
    size_t variable_count;
    remote_addr lock; /* the mutex that is held while the world is stopped; 0: none is known */
    bool musl;        /* whose mutex the lock is, and whether setuid and its like stop the world */
};

struct plan;

/*
 * Looks for one, and forbids the functions in which a thread has stopped the
 * world. FAULT_UNSUPPORTED: there is one, and a call could hang the process.
 */
fault_code collectors_find(struct plan *plan, const struct modules *modules,
                           const struct target *target, struct memory *memory, struct fault *fault);

/*
 * The signals that must stay open during a call, as they are now; 0: none.
 * False: they cannot be told.
 */
bool collector_signals(const struct collector *collector, struct memory *memory, uint64_t *signals);

/*
 * May this stopped thread, which blocks the signals of mask, have stopped the others, or answer
 * such a stop, or be the collector's own? open: collector_signals.
 */
bool collector_uses(const struct collector *collector, const struct target *target,
                    struct memory *memory, pid_t tid, uint64_t open, uint64_t mask);
