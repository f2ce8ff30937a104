/* The threads in which a call may be made, and in which order they are tried. */
#pragma once

#include "inject/call.h"

struct ranked {
    struct thread thread;
    bool seasoned;
};

/* The threads that may be used, best first; the first `seasoned` of them are seasoned. */
struct candidates {
    struct ranked *list;
    size_t count, seasoned;
};

/*
 * Lists them; candidates_free releases them. Without any: FAULT_STOPPED (by job
 * control), FAULT_NO_STOP (all in an uninterruptible wait), FAULT_GONE (no thread
 * of that number), FAULT_NO_SAFE_POINT (none may be used).
 */
enum fault_code candidates_list(struct candidates *candidates, const struct injection_env *env,
                                struct fault *fault);
void candidates_free(struct candidates *candidates);
