#include "inject/freeze.h"
#include "attach/permit.h"
#include "attach/threads.h"
#include "base/list.h"
#include "host/priority.h"
#include "host/task.h"
#include "inject/arch.h"
#include "inject/faults.h"

#include <errno.h>
#include <string.h>

enum {
    LOOK_PAUSE_NS = 2000000,
    STOPPABLE_NS = 1000000000, /* how long to wait, without a stop, until all can be stopped */
    STOP_NS = 1000000000,      /* from the first interrupt to the stop of the last thread */
};

/* ---- before the first stop ---- */

/*
 * Returns why the thread cannot be stopped now: it would not stop in time, or the
 * stop would end a call that cannot be repeated. NULL: it can.
 */
static const char *cannot_stop(const struct thread *thread, const struct target *target)
{
    struct proc_syscall now;

    if (thread->state == 'D')
        return "is in an uninterruptible wait";
    if (thread->state == 'S' && thread_read_syscall(thread, target, &now) && now.asleep &&
        arch_bears_no_stop(now.nr))
        return "waits in close(2), which the stop would end";
    return NULL;
}

static fault_code look_at_threads(const struct freeze_env *env, const char **why, pid_t *tid,
                                  struct fault *fault)
{
    struct threads threads;
    fault_code rc = threads_list(&threads, env->target, fault);

    *why = NULL;
    if (rc != FAULT_NONE)
        return rc;
    for (size_t i = 0; i < threads.count && !*why; i++) {
        *why = cannot_stop(&threads.list[i], env->target);
        *tid = threads.list[i].tid;
    }
    threads_free(&threads);
    return FAULT_NONE;
}

static fault_code await_stoppable(const struct freeze_env *env, struct fault *fault)
{
    const struct timespec pause = {0, LOOK_PAUSE_NS};
    uint64_t until = clock_now() + STOPPABLE_NS;
    const char *why;
    pid_t tid = 0;

    for (;;) {
        fault_code rc = look_at_threads(env, &why, &tid, fault);
        if (rc != FAULT_NONE || !why)
            return rc;
        if (deadline_interrupted(env->deadline))
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "freeze", "%d", env->target->pid);
        if (clock_now() > until || deadline_passed(env->deadline))
            break;
        nanosleep(&pause, NULL);
    }
    fault_set(fault, FAULT_NO_FREEZE, 0, "freeze", "thread %d %s", (int)tid, why);
    return permit_explain(env->target, tid, fault);
}

/* ---- the stops ---- */

/* /proc shows the threads in the same order each time, so the first look is nearly always right. */
static bool is_seized(struct freeze *freeze, pid_t tid)
{
    for (size_t i = 0; i < freeze->count; i++) {
        size_t at = (freeze->cursor + i) % freeze->count;
        const struct session *session = &freeze->list[at];
        if (session->tid == tid && session->state != SESSION_LOST) {
            freeze->cursor = at + 1;
            return true;
        }
    }
    return false;
}

/* A thread that has ended is none to be stopped: the first one may be a zombie. */
static fault_code refused_thread(const struct freeze *freeze, pid_t tid, fault_code code,
                                 struct fault *fault)
{
    const struct target *target = freeze->env.target;
    struct thread now = {.tid = tid};

    if (code == FAULT_GONE || !thread_refresh(&now, target))
        return target_check(target, fault);
    return permit_explain(target, tid, fault);
}

static fault_code seize_thread(struct freeze *freeze, pid_t tid, struct fault *fault)
{
    fault_code rc;

    if (!LIST_GROW(freeze->list, freeze->capacity, freeze->count))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "freeze", "%zu threads", freeze->count);
    rc = session_seize(&freeze->list[freeze->count], freeze->env.target, tid, freeze->env.gate,
                       fault);
    if (rc != FAULT_NONE)
        return refused_thread(freeze, tid, rc, fault);
    freeze->count++;
    return FAULT_NONE;
}

static fault_code seize_new(struct freeze *freeze, struct fault *fault)
{
    const struct target *target = freeze->env.target;
    struct task_dir dir;
    int err = task_dir_of_threads(&dir, target->proc, target->pid);
    fault_code rc = FAULT_NONE;
    pid_t tid;

    if (err)
        return fault_set(fault, FAULT_GONE, -err, "list threads", "%d", target->pid);
    freeze->cursor = 0;
    while (rc == FAULT_NONE && freeze->count < THREADS_MAX && (tid = task_dir_next(&dir)))
        if (!is_seized(freeze, tid))
            rc = seize_thread(freeze, tid, fault);
    task_dir_close(&dir);
    return rc;
}

/* A thread that ends before it stops needs no stop. */
static void interrupt_thread(struct freeze *freeze, struct session *session)
{
    if (!freeze->begun_at)
        freeze->begun_at = clock_now();
    (void)session_interrupt(session, NULL);
}

/*
 * The kernel queues signals for a traced thread that it would otherwise ignore at once, so a stop
 * before the delivery of one is no reason for EINTR either, unless a handler runs.
 */
static void undo_eintr(struct session *session)
{
    arch_regs regs;

    if ((session->state != SESSION_EVENT && session->state != SESSION_SIGNAL) ||
        !arch_get_regs(session, &regs) || !arch_eintr_by_stop(session, &regs))
        return;
    arch_repeat_unless_handled(&regs);
    (void)arch_set_regs(session, &regs);
}

static fault_code await_thread(struct freeze *freeze, struct session *session, struct fault *fault)
{
    struct deadline soon = *freeze->env.deadline;
    fault_code rc = FAULT_NONE;

    if (soon.at > freeze->begun_at + STOP_NS)
        soon.at = freeze->begun_at + STOP_NS;
    if (session->state == SESSION_RUNNING)
        rc = session_wait(session, &soon, fault);
    if (rc == FAULT_NONE && deadline_passed(&soon))
        rc = FAULT_NO_FREEZE;
    if (rc != FAULT_NONE) {
        fault_set(fault, FAULT_NO_FREEZE, ETIMEDOUT, "freeze", "thread %d did not stop in time",
                  (int)session->tid);
        return permit_explain(freeze->env.target, session->tid, fault);
    }
    if (session->state == SESSION_EXECED)
        return fault_set(fault, FAULT_EXECED, 0, "freeze", "thread %d", (int)session->tid);
    freeze->threads += session->state != SESSION_LOST;
    undo_eintr(session);
    return FAULT_NONE;
}

/* All are interrupted first, so that they stop at nearly the same time. */
static fault_code stop_new(struct freeze *freeze, struct fault *fault)
{
    fault_code rc;

    for (size_t i = freeze->waited; i < freeze->count; i++)
        interrupt_thread(freeze, &freeze->list[i]);
    for (; freeze->waited < freeze->count; freeze->waited++) {
        rc = await_thread(freeze, &freeze->list[freeze->waited], fault);
        if (rc != FAULT_NONE)
            return rc;
    }
    return FAULT_NONE;
}

/* Only a thread that runs can create another: all are stopped once a look finds none that is new.
 */
static fault_code stop_all(struct freeze *freeze, struct fault *fault)
{
    fault_code rc;

    do {
        rc = seize_new(freeze, fault);
        if (rc == FAULT_NONE && freeze->waited == freeze->count)
            break;
        if (rc == FAULT_NONE)
            rc = stop_new(freeze, fault);
    } while (rc == FAULT_NONE);
    if (rc == FAULT_NONE && deadline_interrupted(freeze->env.deadline))
        rc = fault_set(fault, FAULT_INTERRUPTED, EINTR, "freeze", "%d", freeze->env.target->pid);
    if (rc == FAULT_NONE && !freeze->threads)
        rc = fault_set(fault, FAULT_GONE, ESRCH, "freeze", "%d", freeze->env.target->pid);
    return rc;
}

fault_code freeze_begin(struct freeze *freeze, const struct freeze_env *env, struct fault *fault)
{
    struct fault own;
    fault_code rc;

    fault = fault ? fault : &own; /* permit_explain reads the fault's code */
    memset(freeze, 0, sizeof *freeze);
    freeze->env = *env;
    rc = await_stoppable(env, fault);
    if (rc != FAULT_NONE)
        return rc;
    priority_raise(&freeze->priority);
    priority_hurry(&freeze->priority, true);
    rc = stop_all(freeze, fault);
    priority_hurry(&freeze->priority, false);
    if (rc != FAULT_NONE)
        freeze_end(freeze);
    return rc;
}

/* ---- the end ---- */

void freeze_end(struct freeze *freeze)
{
    priority_hurry(&freeze->priority, true); /* the first that are resumed would delay the others */
    for (size_t i = 0; i < freeze->count; i++)
        session_detach(&freeze->list[i]);
    if (freeze->begun_at && freeze->list)
        freeze->ns = clock_now() - freeze->begun_at;
    priority_restore(&freeze->priority);
    free(freeze->list);
    freeze->list = NULL;
    freeze->count = freeze->capacity = 0;
}
