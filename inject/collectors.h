/*
 * Garbage collectors that stop the world by signals: libgc (Boehm, Demers,
 * Weiser) and D's druntime.
 *
 * The collecting thread sends every other thread a signal and waits until each
 * has answered from its signal handler; the handlers wait until the world is
 * resumed. A thread may be interrupted there with a lock of the allocator held.
 * If our thread waited for that lock with the collector's signals blocked,
 * neither would ever end. So a call in such a process looks to the collector
 * like a signal handler of the program: it runs on the thread's own stack,
 * below the frames that contain its registers, where the collector looks for
 * pointers, and the collector's signals stay unblocked. Neither handler
 * allocates (libgc: pthread_stop_world.c, GC_suspend_handler_inner; druntime:
 * core/thread, thread_suspendHandler).
 *
 * The thread that stops the world waits for no answer itself but keeps all
 * others stopped: it must not be the one that makes the call.
 *
 * Other programs that stop their threads by signals: inject/stoppers.h.
 */
#pragma once

#include "elf/modules.h"

enum {
    COLLECTOR_VARIABLES = 4,
    REALTIME_FIRST = 34, /* SIGRTMIN of glibc */
    MUSL_SYNCCALL = 34,  /* musl: src/internal/pthread_impl.h */
};

struct collector {
    const char *name;    /* static text; NULL: the process has no collector */
    const char *refusal; /* why no call can be made; static text; NULL: a call can be made */
    uint64_t defaults;   /* its signals if the variables contain -1; bit n-1 is signal n */
    remote_addr variables[COLLECTOR_VARIABLES]; /* each contains a signal number, an int */
    size_t variable_count;
    remote_addr lock; /* the mutex that is held while the world is stopped; 0: unknown */
    /* The C library is musl: the form of the lock, and setuid and the like stop the world. */
    bool musl;
};

struct plan;

/*
 * Looks for a collector, and forbids the functions in which a thread has
 * stopped the world. FAULT_UNSUPPORTED: there is one, and a call could hang the
 * process.
 */
fault_code collectors_find(struct plan *plan, const struct modules *modules,
                           const struct target *target, struct memory *memory, struct fault *fault);

/*
 * Returns the signals that must stay unblocked during a call, as they are now;
 * 0: none. False: they cannot be determined.
 */
bool collector_signals(const struct collector *collector, struct memory *memory, uint64_t *signals);

/*
 * True if this stopped thread, which blocks the signals in mask, may have
 * stopped the others, may answer such a stop, or may belong to the collector.
 * open: from collector_signals.
 */
bool collector_uses(const struct collector *collector, const struct target *target,
                    struct memory *memory, pid_t tid, uint64_t open, uint64_t mask);
