#include "inject/candidates.h"
#include "host/task.h"
#include "inject/bounds.h"
#include "inject/faults.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool is_avoided(const struct plan *plan, const struct thread *thread)
{
    for (size_t i = 0; i < plan->avoid_count; i++)
        if (strcmp(thread->comm, plan->avoid[i]) == 0)
            return true;
    return false;
}

/*
 * Uninterruptible (vfork, disk, frozen), stopped and ending threads do not stop
 * for the tool in time. A traced one ('t') is tried: the kernel's refusal leads
 * to its tracer.
 */
static bool may_stop(const struct thread *thread)
{
    return strchr("SRt", thread->state) != NULL;
}

static bool is_candidate(const struct injection_env *env, const struct thread *thread)
{
    if (env->only_thread && thread->tid != env->only_thread)
        return false;
    if (thread->flags & PF_IO_WORKER) /* it has no code of its own */
        return false;
    return !is_avoided(env->plan, thread);
}

/*
 * True if the thread has run long enough to have allocated. A thread that has
 * not would get an arena in the call, and perhaps a background thread of the
 * allocator for it, both for good.
 */
static bool is_seasoned(const struct thread *thread, const struct target *target)
{
    return thread->tid == target->pid || thread->cpu_ticks > 0;
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
        struct ranked ranked = {.thread = all->list[i],
                                .seasoned = is_seasoned(&all->list[i], env->target)};
        candidates->first_lives |= ranked.thread.tid == env->target->pid;
        if (!is_candidate(env, &ranked.thread))
            continue;
        if (!may_stop(&ranked.thread)) {
            candidates->later++;
            continue;
        }
        candidates->seasoned += ranked.seasoned;
        candidates->list[candidates->count++] = ranked;
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

void candidates_free(struct candidates *candidates)
{
    free(candidates->list);
    memset(candidates, 0, sizeof *candidates);
}
