/*
 * Waiting for a moment, without holding anything: until then, until Ctrl-C, or
 * until the target has ended. Times are of CLOCK_MONOTONIC: a wall clock that
 * is set meanwhile makes no pause longer or shorter.
 */
#pragma once

#include "attach/target.h"

#include <poll.h>
#include <signal.h>

enum pause_end {
    PAUSE_OVER,        /* the moment has come, or one of `also` is ready */
    PAUSE_INTERRUPTED, /* the flag is set: also if it was before */
    PAUSE_ENDED,       /* the target has ended */
};

struct pause {
    uint64_t until;                           /* CLOCK_MONOTONIC, nanoseconds; UINT64_MAX: never */
    const volatile sig_atomic_t *interrupted; /* of interrupt.h; NULL: not to be interrupted */
    const struct target *target;              /* NULL: none */
    /* Called at once and then about once every tick_ns; NULL: never. */
    void (*tick)(void *ctx);
    void *ctx;
    uint64_t tick_ns; /* 0: a second */
    /* Descriptors that end it too, as for poll(2), PAUSE_ALSO at most: revents tell which. */
    struct pollfd *also;
    nfds_t also_count;
};

enum { PAUSE_ALSO = 2 };

enum pause_end pause_until(const struct pause *pause);
