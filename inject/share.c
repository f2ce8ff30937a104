#include "inject/share.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

enum { WATCH_NS = 1000000 };

static void set_policy(pid_t tid, int policy)
{
    struct sched_param none = {0};
    sched_setscheduler(tid, policy, &none);
}

/* May it leave SCHED_IDLE again? sched(7): without the capability only with RLIMIT_NICE. */
static bool may_raise(const struct target *target)
{
    const uint64_t cap_sys_nice = 1u << 23; /* linux/capability.h */
    char text[8192];
    const char *line;
    ssize_t n = procfs_read(target->proc, text, sizeof text, "self/status");

    line = n > 0 ? strstr(text, "CapEff:") : NULL;
    return line && strtoull(line + strlen("CapEff:"), NULL, 16) & cap_sys_nice;
}

/*
 * The thread stands still and the tool does not come round. (That the tool is
 * runnable says nothing: it is preempted as soon as it has resumed the thread.)
 */
static bool is_waiting_for_tool(const struct share *share)
{
    struct thread thread = {.tid = share->tid};

    return thread_refresh(&thread, share->target) && thread.state == 't';
}

static void *watch(void *arg)
{
    struct share *share = arg;
    unsigned seen = atomic_load(&share->turns);
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    for (;;) {
        until.tv_nsec += WATCH_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (sem_clockwait(&share->over, CLOCK_MONOTONIC, &until) == 0)
            return NULL;
        unsigned now = atomic_load(&share->turns);
        if (now == seen && is_waiting_for_tool(share) && atomic_load(&share->turns) == seen) {
            sched_setaffinity(share->self, sizeof share->former, &share->former);
            set_policy(share->self, SCHED_OTHER);
            return NULL;
        }
        seen = now;
    }
}

/* Signals are for the main thread: they end its waits. */
static bool start_watchdog(struct share *share)
{
    sigset_t all, former;
    int err;

    if (sem_init(&share->over, 0, 0))
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    err = pthread_create(&share->watchdog, NULL, watch, share);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return err == 0;
}

void share_begin(struct share *share, const struct target *target, pid_t tid)
{
    struct thread thread = {.tid = tid};
    cpu_set_t one;

    memset(share, 0, sizeof *share);
    if (sched_getaffinity(0, sizeof share->former, &share->former) ||
        !thread_refresh(&thread, target) || thread.cpu < 0 || thread.cpu >= CPU_SETSIZE)
        return;
    CPU_ZERO(&one);
    CPU_SET((unsigned)thread.cpu, &one);
    share->target = target;
    share->tid = tid;
    share->self = (pid_t)syscall(SYS_gettid);
    share->watched =
        sched_getscheduler(0) == SCHED_OTHER && may_raise(target) && start_watchdog(share);
    share->pinned = sched_setaffinity(0, sizeof one, &one) == 0;
    if (share->watched && share->pinned)
        set_policy(0, SCHED_IDLE);
}

void share_turn(struct share *share)
{
    atomic_fetch_add_explicit(&share->turns, 1, memory_order_relaxed);
}

void share_end(struct share *share)
{
    if (share->watched) {
        set_policy(0, SCHED_OTHER);
        sem_post(&share->over);
        pthread_join(share->watchdog, NULL);
        sem_destroy(&share->over);
    }
    if (share->pinned)
        sched_setaffinity(0, sizeof share->former, &share->former);
    memset(share, 0, sizeof *share);
}
