#include "inject/freeze.h"
#include "attach/permit.h"
#include "attach/threads.h"
#include "base/list.h"
#include "host/priority.h"
#include "host/task.h"
#include "inject/candidates.h"
#include "inject/faults.h"

#include <errno.h>
#include <string.h>

enum {
    LOOK_PAUSE_NS = 2000000,
    STOPPABLE_NS = 1000000000, /* how long to wait, without a stop, until all can be stopped */
    STOP_NS = 1000000000,      /* from the first interrupt to the stop of the last thread */
    QUIET_NS = 40000000,  /* without a stop, until the tick (attach/deadline.h) that asks why */
    STALL_NS = 1000000,   /* for the stop of one thread: it waits for a CPU */
    LATE_NS = 1000000000, /* after the others were resumed, until the last one is given up */
    BUSY_TICKS = 2,       /* CPU time without a stop: more than the way out of the kernel takes */
};

/* ---- before the first stop ---- */

/*
 * Returns why the thread cannot be stopped now: it would not stop in time, or the
 * stop might end a call or repeat it. NULL: it can, and *kind is set.
 */
static const char *classify(const struct thread *thread, const struct target *target,
                            enum freeze_kind *kind)
{
    struct proc_syscall now;
    const char *in;

    *kind = FREEZE_RUNS;
    if (thread->state == 'D')
        return "is in an uninterruptible wait";
    if (thread->state != 'S')
        return NULL;
    *kind = FREEZE_WAITS;
    if (!candidates_bear_stop(thread, target, &now, &in))
        return "sleeps in a system call that a stop might cut short or repeat";
    if (now.asleep && !arch_may_end_by_stop(now.nr))
        *kind = FREEZE_SLEEPS;
    return NULL;
}

/*
 * True if the thread is one of the first `known` in the list. /proc shows them in the same order
 * each time, so the first look is nearly always right.
 */
static bool knows_thread(struct freeze *freeze, size_t known, pid_t tid)
{
    for (size_t i = 0; i < known; i++) {
        size_t at = (freeze->cursor + i) % known;
        const struct session *session = &freeze->list[at].session;
        if (session->tid == tid && session->state != SESSION_LOST) {
            freeze->cursor = at + 1;
            return true;
        }
    }
    return false;
}

/* Sets *why and *tid to the first new thread that cannot be stopped now, if there is one. */
static fault_code list_new(struct freeze *freeze, const char **why, pid_t *tid, struct fault *fault)
{
    const struct target *target = freeze->env.target;
    const size_t known = freeze->count;
    struct task_dir dir;
    int err = task_dir_of_threads(&dir, target->proc, target->pid);
    struct thread thread;

    *why = NULL;
    freeze->cursor = 0;
    if (err)
        return fault_set(fault, FAULT_GONE, -err, "list threads", "%d", target->pid);
    while (freeze->count < THREADS_MAX && (thread.tid = task_dir_next(&dir))) {
        struct freeze_thread new = {.session.tid = thread.tid};
        if (knows_thread(freeze, known, thread.tid) || !thread_refresh(&thread, target))
            continue;
        if (!LIST_GROW(freeze->list, freeze->capacity, freeze->count)) {
            task_dir_close(&dir);
            return fault_set(fault, FAULT_INTERNAL, ENOMEM, "freeze", "%zu threads", freeze->count);
        }
        const char *cannot = classify(&thread, target, &new.kind);
        if (cannot && !*why) {
            *why = cannot;
            *tid = thread.tid;
        }
        freeze->list[freeze->count++] = new;
    }
    task_dir_close(&dir);
    return FAULT_NONE;
}

static fault_code refuse_freeze(const struct freeze_env *env, pid_t tid, const char *why,
                                struct fault *fault)
{
    char where[64];
    bool known = thread_wchan(env->target->proc, env->target->pid, tid, where, sizeof where);

    fault_set(fault, FAULT_NO_FREEZE, 0, "freeze", "thread %d %s%s%s%s", (int)tid, why,
              known ? " (" : "", known ? where : "", known ? ")" : "");
    return permit_explain(env->target, tid, fault);
}

static fault_code await_stoppable(struct freeze *freeze, struct fault *fault)
{
    const struct timespec pause = {0, LOOK_PAUSE_NS};
    const struct freeze_env *env = &freeze->env;
    uint64_t until = clock_now() + STOPPABLE_NS;
    const char *why;
    pid_t tid = 0;

    for (;;) {
        freeze->count = 0;
        fault_code rc = list_new(freeze, &why, &tid, fault);
        if (rc != FAULT_NONE || !why)
            return rc;
        freeze->count = 0;
        if (deadline_interrupted(env->deadline))
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "freeze", "%d", env->target->pid);
        if (clock_now() > until || deadline_passed(env->deadline))
            return refuse_freeze(env, tid, why, fault);
        nanosleep(&pause, NULL);
    }
}

/* ---- the stops ---- */

/* A thread that has ended is none to be stopped. */
static fault_code refused_thread(const struct freeze *freeze, pid_t tid, fault_code code,
                                 struct fault *fault)
{
    const struct target *target = freeze->env.target;
    struct thread now = {.tid = tid};

    if (code == FAULT_GONE || !thread_refresh(&now, target))
        return target_check(target, fault);
    return permit_explain(target, tid, fault);
}

static fault_code seize_new(struct freeze *freeze, struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    for (size_t i = freeze->waited; i < freeze->count && rc == FAULT_NONE; i++) {
        struct session *session = &freeze->list[i].session;
        pid_t tid = session->tid;
        rc = session_seize(session, freeze->env.target, tid, freeze->env.gate, fault);
        if (rc != FAULT_NONE)
            rc = refused_thread(freeze, tid, rc, fault);
    }
    return rc;
}

static bool is_interrupted(const struct freeze_thread *thread)
{
    return thread->session.stopped_at && thread->session.state == SESSION_RUNNING;
}

/* A thread that ends before it stops needs no stop. */
static void interrupt_thread(struct freeze *freeze, struct freeze_thread *thread)
{
    if (!freeze->begun_at)
        freeze->begun_at = clock_now();
    if (!thread->session.stopped_at && thread->session.state == SESSION_RUNNING)
        (void)session_interrupt(&thread->session, NULL);
}

/*
 * The kernel queues signals for a traced thread that it would otherwise ignore at once, so a stop
 * before the delivery of one is no reason for EINTR either, unless a handler runs.
 */
static void undo_eintr(struct session *session)
{
    if (session->state == SESSION_EVENT || session->state == SESSION_SIGNAL)
        arch_repeat_unless_handled(session);
}

/*
 * Returns why the thread, which has been interrupted, will not stop soon; NULL: it waits for a CPU.
 * A call that is busy in the kernel (a large munmap(2)) sees the interrupt only at its end.
 */
static const char *is_stuck(struct freeze_thread *thread, const struct target *target)
{
    struct thread now = {.tid = thread->session.tid};

    if (!thread_refresh(&now, target))
        return NULL;
    if (now.state == 'D')
        return "is in an uninterruptible wait";
    if (!thread->ticks)
        thread->ticks = now.cpu_ticks + 1;
    return now.cpu_ticks + 1 - thread->ticks >= BUSY_TICKS ? "is busy in the kernel" : NULL;
}

/*
 * Puts right all that have stopped. Returns why none of the others will stop soon; NULL: one has
 * just stopped, or will, so it is worth waiting.
 */
static const char *look_at_missing(struct freeze *freeze)
{
    const char *why = NULL;
    bool hope = false;

    for (size_t i = freeze->waited; i < freeze->count; i++) {
        struct freeze_thread *thread = &freeze->list[i];
        if (!is_interrupted(thread))
            continue;
        if (session_poll(&thread->session)) {
            undo_eintr(&thread->session);
            hope = true;
        } else {
            const char *stuck = is_stuck(thread, freeze->env.target);
            why = why ? why : stuck;
            hope |= !stuck;
        }
    }
    return hope ? NULL : why;
}

static fault_code await_thread(struct freeze *freeze, struct session *session, struct fault *fault)
{
    const struct deadline *deadline = freeze->env.deadline;
    const uint64_t most = freeze->begun_at + STOP_NS,
                   limit = deadline->at < most ? deadline->at : most;
    struct deadline soon = *deadline;
    const char *why = NULL;

    while (session->state == SESSION_RUNNING && !why) {
        soon.at = clock_now() + QUIET_NS;
        if (session_wait(session, &soon, NULL) == FAULT_NONE)
            undo_eintr(session);
        else
            why = look_at_missing(freeze);
        if (!why && clock_now() >= limit)
            why = "did not stop in time";
    }
    if (why)
        return refuse_freeze(&freeze->env, session->tid, why, fault);
    if (session->state == SESSION_EXECED)
        return fault_set(fault, FAULT_EXECED, 0, "freeze", "thread %d", (int)session->tid);
    freeze->threads += session->state != SESSION_LOST;
    return FAULT_NONE;
}

static bool sleeps_now(const struct freeze_thread *thread, const struct target *target)
{
    struct thread now = {.tid = thread->session.tid};

    return thread_refresh(&now, target) && now.state == 'S';
}

/*
 * A stop ends epoll_wait(2) and others with EINTR, and only undo_eintr lets the kernel repeat them:
 * if the tool dies in between, the target sees the EINTR. So the threads that wait in such a call
 * are stopped few at a time, each put right before another is interrupted. All others are
 * interrupted first, all together: those that run need a CPU for their stop, which each of them
 * takes away from the others until it is interrupted itself.
 */
static fault_code stop_new(struct freeze *freeze, struct fault *fault)
{
    size_t next = freeze->waited, open = 0;
    fault_code rc = FAULT_NONE;

    for (size_t i = freeze->waited; i < freeze->count; i++) {
        struct freeze_thread *thread = &freeze->list[i];
        if (thread->kind == FREEZE_RUNS && sleeps_now(thread, freeze->env.target))
            thread->kind = FREEZE_WAITS;
        if (thread->kind != FREEZE_WAITS)
            interrupt_thread(freeze, thread);
    }
    while (rc == FAULT_NONE && freeze->waited < freeze->count) {
        uint64_t since = clock_now();
        for (; next < freeze->count && open < freeze->window; next++) {
            open += freeze->list[next].kind == FREEZE_WAITS;
            interrupt_thread(freeze, &freeze->list[next]);
        }
        rc = await_thread(freeze, &freeze->list[freeze->waited].session, fault);
        if (rc == FAULT_NONE)
            open -= freeze->list[freeze->waited++].kind == FREEZE_WAITS;
        if (freeze->window < FREEZE_WINDOW_MOST && clock_now() - since > STALL_NS)
            freeze->window *= 2;
    }
    return rc;
}

/* Each thread that is stopped counts, so if the process has no more of them, none has been missed.
 */
static bool misses_none(const struct freeze *freeze)
{
    const struct target *target = freeze->env.target;
    struct proc_stat stat;

    return thread_stat(target->proc, target->pid, target->pid, &stat) == 0 &&
           stat.threads == freeze->threads;
}

/* Only a thread that runs can create another: all are stopped once a look finds none that is new.
 */
static fault_code stop_all(struct freeze *freeze, struct fault *fault)
{
    const char *why;
    fault_code rc;
    pid_t tid;

    do {
        rc = seize_new(freeze, fault);
        if (rc == FAULT_NONE)
            rc = stop_new(freeze, fault);
        if (rc == FAULT_NONE && !misses_none(freeze))
            rc = list_new(freeze, &why, &tid, fault);
    } while (rc == FAULT_NONE && freeze->waited < freeze->count);
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
    freeze->window = FREEZE_WINDOW;
    rc = await_stoppable(freeze, fault);
    if (rc != FAULT_NONE) {
        freeze_end(freeze);
        return rc;
    }
    (void)priority_raise(&freeze->priority, env->target->pid);
    rc = stop_all(freeze, fault);
    if (rc != FAULT_NONE)
        freeze_end(freeze);
    return rc;
}

/* ---- the end ---- */

/* A thread that gets a CPU only now would see the EINTR. */
static void await_late(struct freeze *freeze, struct freeze_thread *thread, uint64_t until)
{
    struct deadline tick = *freeze->env.deadline;
    bool stopped = session_poll(&thread->session);

    tick.at = 0;
    while (!stopped && !is_stuck(thread, freeze->env.target) && clock_now() < until)
        stopped = session_wait(&thread->session, &tick, NULL) == FAULT_NONE;
    if (stopped)
        undo_eintr(&thread->session);
    session_detach(&thread->session);
}

void freeze_end(struct freeze *freeze)
{
    for (size_t i = 0; i < freeze->count; i++)
        if (!is_interrupted(&freeze->list[i]))
            session_detach(&freeze->list[i].session);
    if (freeze->begun_at && freeze->list)
        freeze->ns = clock_now() - freeze->begun_at;
    for (size_t i = 0; i < freeze->count; i++)
        if (is_interrupted(&freeze->list[i]))
            await_late(freeze, &freeze->list[i], freeze->begun_at + freeze->ns + LATE_NS);
    priority_restore(&freeze->priority);
    free(freeze->list);
    freeze->list = NULL;
    freeze->count = freeze->capacity = 0;
}
