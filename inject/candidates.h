/* The threads that a call could be made in. */
#pragma once

#include "inject/call.h"

struct ranked {
    struct thread thread;
    bool seasoned; /* it has run for long enough to have allocated */
};

/* Best first; the first `seasoned` of them are seasoned. */
struct candidates {
    struct ranked *list;
    size_t count, seasoned;
};

/*
 * The threads of env->target that may be used; candidates_free releases them.
 * Where there is none the fault tells why: FAULT_NO_STOP if they come to no stop
 * just now, which may pass.
 */
enum fault_code candidates_list(struct candidates *candidates, const struct injection_env *env,
                                struct fault *fault);
void candidates_free(struct candidates *candidates);
