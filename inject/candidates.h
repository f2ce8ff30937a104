/*
 * The threads in which a call may be made, and the order in which they are tried.
 *
 * Their bounds are restrictions that the kernel enforces per thread and that a forged call
 * cannot work under: seccomp(2), syscall user dispatch, a shadow stack. They
 * may differ between the threads of a process; /proc/PID/status shows those of
 * the first thread.
 */
#pragma once

#include "inject/call.h"

struct ranked {
    struct thread thread;
    bool seasoned;
    bool looked_at;    /* its own status has been read; until then the fields below are unknown */
    enum proof bounds; /* from that status or from its last stop */
    unsigned filters;  /* number of seccomp filters */
};

/* The threads that may be used, best first; the first `seasoned` ones are seasoned. */
struct candidates {
    struct ranked *list;
    size_t count, seasoned;
    size_t later;     /* threads that cannot be used in their present state */
    bool first_lives; /* the first thread of the process has not ended */
    bool fewest_known;
    unsigned fewest; /* the least number of seccomp filters of all these and the first thread */
};

/*
 * Lists the candidates; candidates_free releases the list. If there are none:
 * FAULT_STOPPED (by job control), FAULT_NO_STOP (all in an uninterruptible
 * wait), FAULT_GONE (no thread with that tid), FAULT_NO_SAFE_POINT (none may be
 * used).
 */
fault_code candidates_list(struct candidates *candidates, const struct injection_env *env,
                           struct fault *fault);

/*
 * Returns the bounds of a thread in the list, from its own status, which is
 * read at the first request: about 20 us per thread, during which none is
 * stopped. PROOF_FILTERED if others have fewer seccomp filters, unless
 * env->named.
 */
enum proof candidates_bounds(struct candidates *candidates, struct ranked *ranked,
                             const struct injection_env *env);

/*
 * False if the thread sleeps in a system call in which it must not be stopped (arch_is_repeatable);
 * it may enter one just then. Fills *now as thread_read_syscall does. *in is then the name of the
 * call.
 */
bool candidates_bear_stop(const struct thread *thread, const struct target *target,
                          struct proc_syscall *now, const char **in);

void candidates_free(struct candidates *candidates);

/*
 * Returns the bounds of the thread that injection->session has stopped, and
 * fills injection->own. Before the stop they are known only until the thread's
 * next instruction. PROOF_SAFE, or the reason why no call may be made in it.
 */
enum proof bounds_of_stopped(struct injection *injection);

/*
 * True if it is a result of one of the functions above, or PROOF_REALTIME. It stays valid as long
 * as the thread does nothing new.
 */
bool bounds_hold(enum proof proof);

/*
 * True if syscall user dispatch may be on for a thread with that status, on a
 * kernel that does not report it. A program that switches it on also handles
 * SIGSYS, or dies. But so does a program that catches every signal (the runtime
 * of Go), one with a seccomp filter that answers with SIGSYS, and every process
 * of Ruby and ClickHouse. It is only a suspicion: it does not apply if the
 * operator named the thread.
 */
bool bounds_may_dispatch(const struct proc_status *status, const struct injection_env *env);
