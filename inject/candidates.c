#include "inject/candidates.h"
#include "host/task.h"
#include "inject/faults.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* linux/prctl.h since Linux 5.11 */
enum { SET_SYSCALL_USER_DISPATCH = 59, DISPATCH_OFF = 0 };

/* The real-time signals that no C library reserves: bit n-1 is signal n. */
#define REAL_TIME_SIGNALS (~0ull << (35 - 1))

/* ---- the list ---- */

/* False for a thread that the operator or the allocator rules out. */
static bool is_candidate(const struct injection_env *env, const struct thread *thread)
{
    if (env->only_thread && thread->tid != env->only_thread)
        return false;
    if (thread->flags & PF_IO_WORKER) /* it has no code of its own */
        return false;
    for (size_t i = 0; i < env->plan->avoid_count; i++)
        if (strcmp(thread->comm, env->plan->avoid[i]) == 0)
            return false;
    return true;
}

/* Seasoned threads first; then sleeping ones; then the least busy: stopping them costs least. */
static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    bool x_runs = x->thread.state == 'R', y_runs = y->thread.state == 'R';

    if (x->seasoned != y->seasoned)
        return x->seasoned ? -1 : 1;
    if (x_runs != y_runs)
        return x_runs ? 1 : -1;
    return (x->thread.cpu_ticks > y->thread.cpu_ticks) -
           (x->thread.cpu_ticks < y->thread.cpu_ticks);
}

/*
 * Explains why there is no candidate: all stopped by job control, all
 * uninterruptible, or none allowed.
 */
static fault_code explain_no_candidate(const struct threads *all, const struct injection_env *env,
                                       struct fault *fault)
{
    size_t stopped = 0, stuck = 0, wanted = 0;

    for (size_t i = 0; i < all->count; i++) {
        if (env->only_thread && all->list[i].tid != env->only_thread)
            continue;
        wanted++;
        stopped += all->list[i].state == 'T';
        stuck += all->list[i].state == 'D';
    }
    if (env->only_thread && !wanted)
        return fault_set(fault, FAULT_GONE, ESRCH, "choose a thread", "no thread %d",
                         (int)env->only_thread);
    if (stopped)
        return fault_set(fault, FAULT_STOPPED, 0, "choose a thread", "%zu of %zu threads", stopped,
                         wanted);
    if (stuck)
        return fault_set(fault, FAULT_NO_STOP, 0, "choose a thread",
                         "%zu of %zu threads are in an uninterruptible wait", stuck, wanted);
    return fault_set(fault, FAULT_NO_SAFE_POINT, 0, "choose a thread",
                     "none of %zu threads may be used", all->count);
}

static bool rank_threads(struct candidates *candidates, const struct threads *all,
                         const struct injection_env *env)
{
    memset(candidates, 0, sizeof *candidates);
    candidates->list = calloc(all->count, sizeof *candidates->list);
    if (!candidates->list)
        return false;
    for (size_t i = 0; i < all->count; i++) {
        const struct thread *thread = &all->list[i];
        bool is_first = thread->tid == env->target->pid;
        candidates->first_lives |= is_first;
        if (!is_candidate(env, thread))
            continue;
        /*
         * Uninterruptible (vfork, disk, frozen), stopped and ending threads do not stop for the
         * tool in time. A traced one ('t') is tried: the kernel's refusal leads to its tracer.
         */
        if (!strchr("SRt", thread->state)) {
            candidates->later++;
            continue;
        }
        /*
         * It has run long enough to have allocated. A thread that has not would get an arena in
         * the call, and perhaps a background thread of the allocator for it, both for good.
         */
        bool seasoned = is_first || thread->cpu_ticks > 0;
        candidates->seasoned += seasoned;
        candidates->list[candidates->count++] =
            (struct ranked){.thread = *thread, .seasoned = seasoned};
    }
    qsort(candidates->list, candidates->count, sizeof *candidates->list, compare_ranked);
    return true;
}

fault_code candidates_list(struct candidates *candidates, const struct injection_env *env,
                           struct fault *fault)
{
    struct threads all;
    fault_code rc = threads_list(&all, env->target, fault);

    if (rc != FAULT_NONE)
        return rc;
    if (!rank_threads(candidates, &all, env))
        rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "choose a thread", "%zu", all.count);
    else if (candidates->count == 0)
        rc = explain_no_candidate(&all, env, fault);
    if (rc != FAULT_NONE)
        candidates_free(candidates);
    threads_free(&all);
    return rc;
}

/* ---- bounds ---- */

/* Returns PROOF_SAFE, PROOF_STRICT or PROOF_SHADOW_STACK. */
static enum proof bounds_of_status(const struct proc_status *status)
{
    if (status->seccomp == STATUS_SECCOMP_STRICT)
        return PROOF_STRICT;
    return status->shadow_stack ? PROOF_SHADOW_STACK : PROOF_SAFE;
}

/* A thread that ends at this moment has no bounds: the attempt to stop it will report that. */
static void read_bounds(struct ranked *ranked, const struct target *target)
{
    struct proc_status status;

    if (ranked->looked_at)
        return;
    ranked->looked_at = true;
    if (thread_status(target->proc, target->pid, ranked->thread.tid, &status) == 0) {
        ranked->bounds = bounds_of_status(&status);
        ranked->filters = status.seccomp_filters;
    }
}

/* Most often the first thread has no filter, and no other needs to be read. */
static unsigned fewest_filters(struct candidates *candidates, const struct injection_env *env)
{
    const struct target *target = env->target;
    struct proc_status first;
    unsigned fewest = UINT_MAX;

    if (candidates->fewest_known)
        return candidates->fewest;
    if (candidates->first_lives &&
        thread_status(target->proc, target->pid, target->pid, &first) == 0 &&
        bounds_of_status(&first) == PROOF_SAFE)
        fewest = first.seccomp_filters;
    for (size_t i = 0; i < candidates->count && fewest > 0; i++) {
        const struct ranked *ranked = &candidates->list[i];
        read_bounds(&candidates->list[i], target);
        if (ranked->bounds == PROOF_SAFE && ranked->filters < fewest)
            fewest = ranked->filters;
    }
    candidates->fewest_known = true;
    candidates->fewest = fewest;
    return fewest;
}

enum proof candidates_bounds(struct candidates *candidates, struct ranked *ranked,
                             const struct injection_env *env)
{
    read_bounds(ranked, env->target);
    if (ranked->bounds != PROOF_SAFE || env->named)
        return ranked->bounds;
    return ranked->filters > fewest_filters(candidates, env) ? PROOF_FILTERED : PROOF_SAFE;
}

/*
 * A supervisor by seccomp's user notification is notified again of any call, so also of one that
 * only waits. Where the thread waits in the kernel shows that, also if the system call is hidden
 * from a tool that may stop the thread: its file belongs to the target's user.
 */
bool candidates_bear_stop(const struct thread *thread, const struct target *target,
                          struct proc_syscall *now, const char **in)
{
    static const char notification[] = "seccomp_do_user_notification"; /* then .isra.0, or not */
    char where[64];

    *in = "another one";
    if (thread_read_syscall(thread, target, now)) {
        if (!now->asleep)
            return true;
        if (syscall_name(now->nr))
            *in = syscall_name(now->nr);
        if (now->nr >= 0 && !arch_is_repeatable(now->nr))
            return false;
    }
    return !thread_wchan(target->proc, target->pid, thread->tid, where, sizeof where) ||
           strncmp(where, notification, sizeof notification - 1) != 0;
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

enum proof bounds_of_stopped(struct injection *injection)
{
    const struct target *target = injection->env.target;
    enum proof proof;
    bool on;

    injection->own_known =
        thread_status(target->proc, target->pid, injection->session.tid, &injection->own) == 0;
    if (!injection->own_known)
        return PROOF_NO_STATUS;
    proof = bounds_of_status(&injection->own);
    if (proof != PROOF_SAFE)
        return proof;
    if (injection->own.seccomp_filters > injection->filters_max)
        return PROOF_FILTERED;
    if (session_dispatch(&injection->session, &on))
        return on ? PROOF_DISPATCH : PROOF_SAFE;
    if (errno != EIO)
        return PROOF_NO_STATUS;
    if (!bounds_may_dispatch(&injection->own, &injection->env))
        return PROOF_SAFE;
    /*
     * Switches it off for the tool itself, where it is off already; a kernel before
     * 5.11 returns EINVAL.
     */
    return prctl(SET_SYSCALL_USER_DISPATCH, DISPATCH_OFF, 0, 0, 0) == 0 || errno != EINVAL
               ? PROOF_MAY_DISPATCH
               : PROOF_SAFE;
}

bool bounds_hold(enum proof proof)
{
    return proof >= PROOF_STRICT && proof <= PROOF_FILTERED;
}

void candidates_free(struct candidates *candidates)
{
    free(candidates->list);
    memset(candidates, 0, sizeof *candidates);
}
