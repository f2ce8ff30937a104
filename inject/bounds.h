/*
 * What the kernel enforces on one thread apart from the others of its process,
 * and a forged call cannot bear: seccomp(2), syscall user dispatch, a shadow
 * stack. Each is a thread's own; /proc/PID/status shows the first thread's.
 */
#pragma once

#include "inject/call.h"

/* PROOF_SAFE, PROOF_STRICT or PROOF_SHADOW_STACK. */
enum proof bounds_of_status(const struct proc_status *status);

/*
 * The bounds of the thread that injection->session has stopped; fills
 * injection->own. In front of the stop they are known only until the next
 * instruction of the thread. PROOF_SAFE, or why no call may be made in it.
 */
enum proof bounds_of_stopped(struct injection *injection);

/* Is it a verdict of one of the above? It stays true for as long as the thread does nothing new. */
bool bounds_hold(enum proof proof);

/*
 * May syscall user dispatch be on for a thread with that status, on a kernel
 * that does not tell? Whoever switches it on also handles SIGSYS, or dies. But
 * so does who catches every signal there is (the runtime of Go), one with a
 * seccomp filter that answers by SIGSYS, and Ruby and ClickHouse in each of
 * their processes. A suspicion is all it is: not if the operator named the thread.
 */
bool bounds_may_dispatch(const struct proc_status *status, const struct injection_env *env);
