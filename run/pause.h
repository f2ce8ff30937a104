/*
 * Waits until a time, Ctrl-C or the end of the target, with no thread stopped.
 * Times are CLOCK_MONOTONIC, so that setting the wall clock has no effect.
 */
#pragma once

#include "attach/target.h"

#include <poll.h>
#include <signal.h>

enum pause_end {
    PAUSE_OVER,        /* the time has come, `over` is true, or one of `also` is ready */
    PAUSE_INTERRUPTED, /* the flag is set, or was set before */
    PAUSE_ENDED,       /* the target has ended */
};

struct pause {
    uint64_t until;                           /* CLOCK_MONOTONIC, nanoseconds; UINT64_MAX: never */
    const volatile sig_atomic_t *interrupted; /* flag of interrupt.h; NULL: not interruptible */
    const struct target *target;              /* NULL: none */
    /* Called at the start and then about every tick_ns; NULL: never. */
    void (*tick)(void *ctx);
    /* Called after that, or at the same times; true ends the wait. NULL: never. */
    bool (*over)(void *ctx);
    void *ctx;
    uint64_t tick_ns; /* 0: a second */
    /* At most PAUSE_ALSO file descriptors that end it, too, as for poll(2); sets revents. */
    struct pollfd *also;
    nfds_t also_count;
};

enum { PAUSE_ALSO = 2 };

enum pause_end pause_until(const struct pause *pause);
