#include "inject/bounds.h"
#include "host/task.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

/* linux/prctl.h since Linux 5.11 */
enum { SET_SYSCALL_USER_DISPATCH = 59, DISPATCH_OFF = 0 };

/* The real-time signals that no C library reserves: bit n-1 is signal n. */
#define REAL_TIME_SIGNALS (~0ull << (35 - 1))

enum proof bounds_of_status(const struct proc_status *status)
{
    if (status->seccomp == STATUS_SECCOMP_STRICT)
        return PROOF_STRICT;
    return status->shadow_stack ? PROOF_SHADOW_STACK : PROOF_SAFE;
}

/*
 * True if the program handles SIGSYS for its own purposes: Ruby's handler does
 * nothing (signal.c, Init_signal), ClickHouse's reports a crash.
 */
static bool handles_for_itself(const struct modules *modules)
{
    static const char *const programs[] = {"libruby", "ruby", "clickhouse"};

    for (size_t i = 0; modules && i < modules->count; i++)
        for (size_t j = 0; j < ARRAY_LEN(programs); j++)
            if (strncmp(module_name(&modules->list[i]), programs[j], strlen(programs[j])) == 0)
                return true;
    return false;
}

bool bounds_may_dispatch(const struct proc_status *status, const struct injection_env *env)
{
    bool catches_all = (status->sig_caught & REAL_TIME_SIGNALS) == REAL_TIME_SIGNALS;

    return (status->sig_caught >> (SIGSYS - 1) & 1) && !catches_all &&
           status->seccomp != STATUS_SECCOMP_FILTER && !env->named &&
           !handles_for_itself(env->modules);
}

/*
 * Switches it off for the tool itself, where it is off already; a kernel before
 * 5.11 returns EINVAL.
 */
static bool kernel_can_dispatch(void)
{
    return prctl(SET_SYSCALL_USER_DISPATCH, DISPATCH_OFF, 0, 0, 0) == 0 || errno != EINVAL;
}

static enum proof bounds_of_dispatch(struct injection *injection)
{
    bool on;

    if (session_dispatch(&injection->session, &on))
        return on ? PROOF_DISPATCH : PROOF_SAFE;
    if (errno != EIO)
        return PROOF_NO_STATUS;
    return bounds_may_dispatch(&injection->own, &injection->env) && kernel_can_dispatch()
               ? PROOF_MAY_DISPATCH
               : PROOF_SAFE;
}

enum proof bounds_of_stopped(struct injection *injection)
{
    const struct target *target = injection->env.target;
    enum proof proof;

    injection->own_known =
        thread_status(target->proc, target->pid, injection->session.tid, &injection->own) == 0;
    if (!injection->own_known)
        return PROOF_NO_STATUS;
    proof = bounds_of_status(&injection->own);
    if (proof != PROOF_SAFE)
        return proof;
    if (injection->own.seccomp_filters > injection->filters_max)
        return PROOF_FILTERED;
    return bounds_of_dispatch(injection);
}

bool bounds_hold(enum proof proof)
{
    return proof >= PROOF_STRICT && proof <= PROOF_FILTERED;
}
