#include "inject/occupied.h"
#include "attach/target.h"
#include "host/task.h"
#include "inject/arch.h"

#include <string.h>
#include <time.h>

enum {
    LOOK_NS = 5000000,
    WATCHED_MAX = 64,
    LONG_NS = 100000000, /* from here on a stay in the kernel counts */
};

/* A thread that may have the lock, or wait for it, as it was at the last look. */
struct watched {
    pid_t tid;
    char state;          /* R or D */
    long nr;             /* D: the system call; -1: a page fault */
    uint64_t user_ticks; /* CPU time in user mode */
    uint64_t kernel_ticks;
    bool ran; /* in the kernel, since the first look */
    uint64_t sleeps;
};

/* A thread of io_uring that polls is in the kernel for good (io_uring/sqpoll.c). */
static bool is_poller(const struct proc_stat *stat)
{
    return stat->flags & PF_IO_WORKER && strncmp(stat->comm, "iou-sqp", 7) == 0;
}

/* Fills *out from /proc. False if the thread can neither have the lock nor wait for it. */
static bool read_watched(const struct target *target, pid_t tid, struct watched *out)
{
    const struct thread thread = {.tid = tid};
    struct proc_status status;
    struct proc_syscall at;
    struct proc_stat stat;

    if (thread_stat(target->proc, target->pid, tid, &stat) || is_poller(&stat) ||
        (stat.state != 'R' && stat.state != 'D'))
        return false;
    *out = (struct watched){.tid = tid,
                            .state = stat.state,
                            .nr = -1,
                            .user_ticks = stat.user_ticks,
                            .kernel_ticks = stat.cpu_ticks - stat.user_ticks};
    if (stat.state == 'R')
        return true;
    if (!thread_read_syscall(&thread, target, &at) || !at.asleep ||
        (at.nr >= 0 && !arch_locks_memory(at.nr)) ||
        thread_status(target->proc, target->pid, tid, &status))
        return false;
    out->nr = at.nr;
    out->sleeps = status.voluntary_switches;
    return true;
}

/* A thread that waited may have the lock by now, and the reverse. */
static bool has_stayed(const struct target *target, struct watched *watched)
{
    struct watched now;

    if (!read_watched(target, watched->tid, &now) || now.user_ticks != watched->user_ticks)
        return false;
    if (now.state == 'D' && watched->state == 'D' && now.sleeps != watched->sleeps)
        return false;
    now.ran = watched->ran || now.kernel_ticks != watched->kernel_ticks;
    *watched = now;
    return true;
}

void occupied_look(const struct target *target, const struct deadline *deadline,
                   struct occupied *out)
{
    const struct timespec pause = {0, LOOK_NS};
    struct watched list[WATCHED_MAX];
    struct threads threads;
    size_t count = 0;

    memset(out, 0, sizeof *out);
    if (threads_list(&threads, target, NULL) != FAULT_NONE)
        return;
    for (size_t i = 0; threads.count > 1 && i < threads.count && count < WATCHED_MAX; i++)
        if ((threads.list[i].state == 'R' || threads.list[i].state == 'D') &&
            read_watched(target, threads.list[i].tid, &list[count]))
            count++;
    threads_free(&threads);

    for (uint64_t until = clock_now() + LONG_NS; count && clock_now() < until;) {
        size_t kept = 0;
        if (deadline_interrupted(deadline))
            return;
        nanosleep(&pause, NULL);
        for (size_t i = 0; i < count; i++)
            if (has_stayed(target, &list[i]))
                list[kept++] = list[i];
        count = kept;
    }
    for (size_t i = 0; i < count; i++) {
        if (list[i].state == 'R' && !list[i].ran)
            continue; /* it waits for a CPU */
        enum occupancy occupancy = list[i].state == 'D' ? OCCUPANCY_WAITED : OCCUPANCY_SHARED;
        if (occupancy <= out->occupancy)
            continue;
        out->occupancy = occupancy;
        out->tid = list[i].tid;
        out->nr = list[i].nr;
    }
}
