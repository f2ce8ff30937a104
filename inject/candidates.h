/* The threads in which a call may be made, and in which order they are tried. */
#pragma once

#include "inject/call.h"

struct ranked {
    struct thread thread;
    bool seasoned;
    bool looked_at;    /* its own status has been read; until then the rest is not known */
    enum proof bounds; /* inject/bounds.h, from that status or from its last stop */
    unsigned filters;  /* seccomp filters */
};

/* The threads that may be used, best first; the first `seasoned` of them are seasoned. */
struct candidates {
    struct ranked *list;
    size_t count, seasoned;
    size_t later;     /* threads that cannot be used in their present state */
    bool first_lives; /* the process's first thread has not ended */
    bool fewest_known;
    unsigned fewest; /* seccomp filters, of all of them and the first thread */
};

/*
 * Lists them; candidates_free releases them. Without any: FAULT_STOPPED (by job
 * control), FAULT_NO_STOP (all in an uninterruptible wait), FAULT_GONE (no thread
 * of that number), FAULT_NO_SAFE_POINT (none may be used).
 */
fault_code candidates_list(struct candidates *candidates, const struct injection_env *env,
                           struct fault *fault);

/*
 * The bounds of one of the list, from its own status, which is read at the first
 * question: about 20 us a thread, for which none is held. PROOF_FILTERED where
 * others have fewer seccomp filters, unless env->named.
 */
enum proof candidates_bounds(struct candidates *candidates, struct ranked *ranked,
                             const struct injection_env *env);

void candidates_free(struct candidates *candidates);
