/*
 * Restrictions that the kernel enforces per thread and that a forged call
 * cannot work under: seccomp(2), syscall user dispatch, a shadow stack. They
 * may differ between the threads of a process; /proc/PID/status shows those of
 * the first thread.
 */
#pragma once

#include "inject/call.h"

/* Returns PROOF_SAFE, PROOF_STRICT or PROOF_SHADOW_STACK. */
enum proof bounds_of_status(const struct proc_status *status);

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
