/*
 * Garbage collectors that stop the world by signals: libgc (Boehm, Demers, Weiser), D's druntime,
 * Mono, SBCL.
 *
 * The collecting thread sends every other thread a signal and waits until each
 * has answered from its signal handler; the handlers wait until the world is
 * resumed. A thread may be interrupted there with a lock of the allocator held.
 * If our thread waited for that lock with the collector's signals blocked,
 * neither would ever end; with them unblocked, the collector would look for
 * pointers on a stack that is not the thread's. So such a process gets no call.
 *
 * Other programs that stop their threads by signals: inject/stoppers.h.
 */
#pragma once

#include "elf/modules.h"

enum {
    REALTIME_FIRST = 34, /* SIGRTMIN of glibc */
    MUSL_SYNCCALL =
        34, /* musl: src/internal/pthread_impl.h; setuid and the like stop all threads */
};

/* FAULT_UNSUPPORTED: the process has such a collector, and a call could hang it. */
fault_code collectors_refuse(const struct modules *modules, const struct target *target,
                             struct memory *memory, struct fault *fault);
