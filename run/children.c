#include "run/children.h"
#include "attach/threads.h"
#include "host/processes.h"
#include "host/task.h"
#include "run/interrupt.h"
#include "run/peers.h"
#include "run/switching.h"

#include <errno.h>
#include <string.h>

#define SECOND_NS ((uint64_t)1000000000)

enum {
    LOOKS = 5,           /* without a find, while a fork may be in progress */
    LOOK_NS = 10000000,  /* between two */
    LATE_TICKS = 10,     /* a fork in progress starts its child a little later */
    TIME_LIMIT_S = 10,   /* for all children */
    KTHREAD = 0x00200000 /* PF_KTHREAD, include/linux/sched.h */
};

/* Now, as a start time in /proc/PID/stat: since boot, in the tool's time namespace, too. */
static uint64_t ticks_now(void)
{
    const uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * ticks + (uint64_t)now.tv_nsec * ticks / SECOND_NS;
}

void children_await(struct children *children)
{
    if (!children->awaited)
        children->since = ticks_now();
    children->awaited = true;
}

void children_recognise(struct children *children, struct attachment *attachment)
{
    exec_mark_read(&children->mark, &attachment->target, &attachment->memory);
}

static void list_child(struct child_list *list, pid_t pid)
{
    if (list->count < CHILDREN_LISTED)
        list->first[list->count] = pid;
    list->count++;
}

/* ---- one child ---- */

/* What became of prof.active in a process. */
enum child_state { CHILD_OTHER, CHILD_FALSE, CHILD_OFF, CHILD_LEFT };

static enum child_state switch_found(struct attachment *child)
{
    struct prof_state state;
    struct fault fault;
    fault_code rc;

    if (switching_find(child, false, &state))
        return CHILD_LEFT;
    if (!prof_is_active(&state))
        return CHILD_FALSE;
    if (peers_sample(&child->target))
        return CHILD_LEFT;
    rc = switching_write(child, false, &state, &fault);
    if (rc == FAULT_NONE)
        return CHILD_OFF;
    return fault_is_gone(rc) ? CHILD_OTHER : CHILD_LEFT;
}

/* Its own attachment: modules and byte are proven anew, and the mark in the memory that is written.
 */
static enum child_state switch_child(const struct children *children,
                                     const struct attachment *parent, const struct target_pin *pin)
{
    const struct run_events *given = parent->request.events;
    const struct run_events events = {.ctx = given ? given->ctx : NULL,
                                      .stalled = given ? given->stalled : NULL};
    const struct attach_request request = {.pid = pin->pid,
                                           .pin = pin,
                                           .instance = parent->request.instance,
                                           .timeout_ns = parent->request.timeout_ns,
                                           .way = WAY_MEMORY,
                                           .trace = parent->request.trace,
                                           .events = &events};
    struct attachment child;
    struct fault fault;
    fault_code rc = attachment_find(&child, &request, &fault);
    enum child_state state = CHILD_LEFT; /* what cannot be told apart, too */

    if (exec_mark_matches(&children->mark, &child.memory))
        state = rc == FAULT_NONE ? switch_found(&child) : CHILD_LEFT;
    else if (children->mark.random_at && fault_class_of(rc) != FAULT_CLASS_DENIED)
        state = CHILD_OTHER;
    if (fault_is_gone(rc))
        state = CHILD_OTHER;
    attachment_close(&child);
    return state;
}

/* ---- all ---- */

/*
 * True if it may be a fork of the target. The kernel hides the addresses of a process that
 * may not be read: it is recognised by its name and its present parents; family holds the
 * target and its descendants, once they are needed.
 */
static bool may_be_child(const struct children *children, const struct attachment *parent,
                         const struct processes *all, struct processes *family,
                         const struct proc_stat *stat)
{
    if (stat->stack_start || stat->flags & KTHREAD)
        return stat->stack_start && stat->stack_start == children->mark.stack_start;
    if (strcmp(stat->comm, parent->target.stat.comm) != 0)
        return false;
    if (!family->count && processes_add(family, parent->target.pid))
        (void)processes_add_descendants(family, all, &parent->proc);
    return processes_has(family, stat->pid);
}

static bool is_time_over(uint64_t limit)
{
    return clock_now() >= limit || *interrupt_again_flag();
}

/* Returns how many were not seen before, of those that started in time. */
static size_t look_for_children(struct children *children, struct attachment *parent,
                                uint64_t until, uint64_t limit, struct processes *seen)
{
    struct processes all, family = {0};
    struct fault ignored;
    size_t count = 0;

    if (processes_list(&all, &parent->proc, &ignored) != FAULT_NONE)
        return 0;
    for (size_t i = 0; i < all.count; i++) {
        struct target_pin pin = {.pid = all.list[i], .pidfd = -1};
        struct proc_stat stat;
        if (pin.pid == parent->target.pid || processes_has(seen, pin.pid) ||
            process_stat(&parent->proc, pin.pid, &stat) != 0 || stat.state == 'Z' ||
            stat.start < children->since || stat.start > until ||
            !may_be_child(children, parent, &all, &family, &stat))
            continue;
        pin.start = stat.start;
        enum child_state state =
            is_time_over(limit) ? CHILD_LEFT : switch_child(children, parent, &pin);
        if (state == CHILD_OFF || state == CHILD_LEFT)
            list_child(state == CHILD_OFF ? &children->off : &children->left, pin.pid);
        count += processes_add(seen, pin.pid);
        processes_sort(seen);
    }
    processes_free(&all);
    processes_free(&family);
    return count;
}

/* A thread in fork(2) runs, or waits without a stop. */
static bool may_be_forking(const struct attachment *parent)
{
    struct threads threads;
    struct fault ignored;
    bool may = false;

    if (threads_list(&threads, &parent->target, &ignored) != FAULT_NONE)
        return false;
    for (size_t i = 0; i < threads.count; i++)
        may |= threads.list[i].state == 'R' || threads.list[i].state == 'D';
    threads_free(&threads);
    return may;
}

/* A child that has copied the former value may appear only now; and it may fork, too. */
void children_switch_off(struct children *children, struct attachment *attachment)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    const uint64_t until = ticks_now() + LATE_TICKS, limit = clock_now() + TIME_LIMIT_S * SECOND_NS;
    struct processes seen = {0};
    size_t found;

    if (!children->awaited)
        return;
    children->awaited = false;
    for (unsigned looks = 0; looks < LOOKS; looks++) {
        found = look_for_children(children, attachment, until, limit, &seen);
        if (found)
            looks = 0;
        if (is_time_over(limit) || (!found && !may_be_forking(attachment)))
            break;
        nanosleep(&pause, NULL);
    }
    processes_free(&seen);
}
