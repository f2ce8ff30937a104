/*
 * Watching the system calls that a thread makes during our call, and standing
 * in for some of them.
 */
#pragma once

#include "base/util.h"

#include <stdbool.h>
#include <stdint.h>

enum intercept_verdict {
    INTERCEPT_PASS,    /* the kernel executes it */
    INTERCEPT_STAND_IN /* it is not executed; the thread sees *result */
};

struct intercept {
    /* At the entry. nr and args as in syscall(2). */
    enum intercept_verdict (*enter)(void *ctx, uint64_t nr, const uint64_t args[6],
                                    int64_t *result);
    /* At the exit of one that was passed; result as the kernel gives it (-errno). */
    void (*leave)(void *ctx, uint64_t nr, const uint64_t args[6], int64_t result);
    void *ctx;
    /*
     * There are few system calls: the tool stays on its processor and at its
     * priority. To follow the thread pays for hundreds of them; on a busy
     * machine it costs a short list more than it takes by itself.
     */
    bool brief;
};

/* "epoll_wait", or NULL for a number without a name. */
const char *syscall_name(long nr);
