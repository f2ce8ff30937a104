/* Intercepts the system calls that a thread makes during our call, and replaces some of them. */
#pragma once

#include "base/util.h"

#include <stdbool.h>

enum intercept_verdict {
    INTERCEPT_PASS,    /* the kernel executes it */
    INTERCEPT_STAND_IN /* it is not executed; the thread sees *result */
};

struct intercept {
    /* At the entry. nr and args as in syscall(2). */
    enum intercept_verdict (*enter)(void *ctx, uint64_t nr, const uint64_t args[6],
                                    int64_t *result);
    /* At the exit of a call that was passed; result as the kernel returns it (-errno). */
    void (*leave)(void *ctx, uint64_t nr, const uint64_t args[6], int64_t result);
    void *ctx;
};

/* Returns a name such as "epoll_wait", or NULL if the number has no name. */
const char *syscall_name(long nr);
