#include "inject/share.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum {
    WATCH_NS = 1000000,
    FOLLOW_EVERY = 4, /* turns */
    NICE_LEAST = -20,
};

static void set_policy(pid_t tid, int policy)
{
    struct sched_param none = {0};
    sched_setscheduler(tid, policy, &none);
}

/*
 * To leave SCHED_IDLE takes what lowering the nice value takes: RLIMIT_NICE, or
 * CAP_SYS_NICE in the first user namespace (kernel/sched/syscalls.c,
 * user_check_sched_setscheduler and can_nice), which the capabilities in
 * /proc/self/status do not show. So the nice value is lowered by one and given
 * back, which nobody may be refused; a try of SCHED_IDLE itself would leave a
 * thread there that, on a busy host, does not even come to its end.
 */
bool share_may_idle(void)
{
    errno = 0;
    int nice_value = getpriority(PRIO_PROCESS, 0);

    if (errno || nice_value <= NICE_LEAST || setpriority(PRIO_PROCESS, 0, nice_value - 1))
        return false;
    return setpriority(PRIO_PROCESS, 0, nice_value) == 0;
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

/* Two looks in a row without a turn while the thread stands still: the tool is starved. */
static void *watch(void *arg)
{
    struct share *share = arg;
    unsigned seen = atomic_load(&share->turns), starved = 0;
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    while (starved < 2) {
        until.tv_nsec += WATCH_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (sem_clockwait(&share->over, CLOCK_MONOTONIC, &until) == 0)
            return NULL;
        unsigned now = atomic_load(&share->turns);
        bool stuck =
            now == seen && is_waiting_for_tool(share) && atomic_load(&share->turns) == seen;
        starved = stuck ? starved + 1 : 0;
        seen = now;
    }
    atomic_store(&share->given_up, true);
    sched_setaffinity(share->self, sizeof share->former, &share->former);
    set_policy(share->self, SCHED_OTHER);
    return NULL;
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

/* The processor on which the thread last ran; -1: not known. */
static int processor_of(const struct share *share)
{
    char text[1024];
    struct proc_stat stat;
    ssize_t n = pread(share->stat, text, sizeof text, 0);

    if (n <= 0 || !parse_stat(text, (size_t)n, &stat) || stat.cpu >= CPU_SETSIZE)
        return -1;
    return stat.cpu;
}

/* Moves the tool to where the thread is. */
static bool follow(struct share *share)
{
    int cpu = processor_of(share);
    cpu_set_t one;

    if (cpu < 0)
        return false;
    if (cpu == share->cpu)
        return true;
    CPU_ZERO(&one);
    CPU_SET((unsigned)cpu, &one);
    share->cpu = cpu;
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

void share_begin(struct share *share, const struct target *target, pid_t tid, bool may_idle)
{
    memset(share, 0, sizeof *share);
    share->target = target;
    share->cpu = -1;
    share->tid = tid;
    share->self = (pid_t)syscall(SYS_gettid);
    share->stat =
        procfs_openf(target->proc, O_RDONLY, "%d/task/%d/stat", (int)target->pid, (int)tid);
    if (share->stat < 0 || sched_getaffinity(0, sizeof share->former, &share->former))
        return;
    share->watched = sched_getscheduler(0) == SCHED_OTHER && may_idle && start_watchdog(share);
    share->pinned = follow(share);
    if (share->watched && share->pinned)
        set_policy(0, SCHED_IDLE);
}

/* While it runs for long, balancing may move the thread: now and then the tool goes after it. */
void share_turn(struct share *share)
{
    unsigned turn = atomic_fetch_add_explicit(&share->turns, 1, memory_order_relaxed);

    if (turn % FOLLOW_EVERY == 0 && share->pinned && !atomic_load(&share->given_up))
        follow(share);
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
    util_close(&share->stat);
    memset(share, 0, sizeof *share);
}
