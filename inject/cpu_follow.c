#include "inject/cpu_follow.h"

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
 * Leaving SCHED_IDLE requires the same right as lowering the nice value:
 * RLIMIT_NICE, or CAP_SYS_NICE in the first user namespace
 * (kernel/sched/syscalls.c, user_check_sched_setscheduler and can_nice), which
 * the capabilities in /proc/self/status do not show. So this lowers the nice
 * value by one and restores it, which nobody can be refused. A try of
 * SCHED_IDLE itself could leave a thread in that policy which, on a busy host,
 * does not even get to its end.
 */
bool cpu_follow_may_idle(void)
{
    errno = 0;
    int nice_value = getpriority(PRIO_PROCESS, 0);

    if (errno || nice_value <= NICE_LEAST || setpriority(PRIO_PROCESS, 0, nice_value - 1))
        return false;
    return setpriority(PRIO_PROCESS, 0, nice_value) == 0;
}

/*
 * True if the thread is stopped and the tool makes no turn. (That the tool is
 * runnable means nothing: it is preempted as soon as it has resumed the
 * thread.)
 */
static bool is_waiting_for_tool(const struct cpu_follow *follow)
{
    struct thread thread = {.tid = follow->tid};

    return thread_refresh(&thread, follow->target) && thread.state == 't';
}

/* The tool has something to do even if the thread does not stop. */
static bool is_tool_due(const struct cpu_follow *follow)
{
    return deadline_passed(follow->until) || deadline_interrupted(follow->until);
}

/* Two checks in a row without a turn while the thread is stopped: the tool is starved. */
static void *monitor_turns(void *arg)
{
    struct cpu_follow *follow = arg;
    unsigned seen = atomic_load(&follow->turns), starved = 0;
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    while (starved < 2 && !is_tool_due(follow)) {
        until.tv_nsec += WATCH_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (sem_clockwait(&follow->over, CLOCK_MONOTONIC, &until) == 0)
            return NULL;
        unsigned now = atomic_load(&follow->turns);
        bool stuck =
            now == seen && is_waiting_for_tool(follow) && atomic_load(&follow->turns) == seen;
        starved = stuck ? starved + 1 : 0;
        seen = now;
    }
    atomic_store(&follow->given_up, true);
    sched_setaffinity(follow->self, sizeof follow->former, &follow->former);
    set_policy(follow->self, SCHED_OTHER);
    return NULL;
}

/* Signals are for the main thread: they end its waits. */
static bool start_monitor(struct cpu_follow *follow)
{
    sigset_t all, former;
    int err;

    if (sem_init(&follow->over, 0, 0))
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    err = pthread_create(&follow->monitor, NULL, monitor_turns, follow);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return err == 0;
}

/* Returns the CPU on which the thread last ran; -1: unknown. */
static int cpu_of_thread(const struct cpu_follow *follow)
{
    char text[1024];
    struct proc_stat stat;
    ssize_t n = pread(follow->stat, text, sizeof text, 0);

    if (n <= 0 || !parse_stat(text, (size_t)n, &stat) || stat.cpu >= CPU_SETSIZE)
        return -1;
    return stat.cpu;
}

/* Moves the tool to the CPU of the thread. */
static bool move_to_thread(struct cpu_follow *follow)
{
    int cpu = cpu_of_thread(follow);
    cpu_set_t one;

    if (cpu < 0)
        return false;
    if (cpu == follow->cpu)
        return true;
    CPU_ZERO(&one);
    CPU_SET((unsigned)cpu, &one);
    follow->cpu = cpu;
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

void cpu_follow_begin(struct cpu_follow *follow, const struct target *target, pid_t tid,
                      const struct deadline *until, bool may_idle)
{
    memset(follow, 0, sizeof *follow);
    follow->target = target;
    follow->until = until;
    follow->cpu = -1;
    follow->tid = tid;
    follow->self = (pid_t)syscall(SYS_gettid);
    follow->stat =
        procfs_openf(target->proc, O_RDONLY, "%d/task/%d/stat", (int)target->pid, (int)tid);
    if (follow->stat < 0 || sched_getaffinity(0, sizeof follow->former, &follow->former))
        return;
    follow->monitored = sched_getscheduler(0) == SCHED_OTHER && may_idle && !is_tool_due(follow) &&
                        start_monitor(follow);
    follow->pinned = move_to_thread(follow);
    if (follow->monitored && follow->pinned)
        set_policy(0, SCHED_IDLE);
    if (atomic_load(&follow->given_up)) /* the monitor may have come before that */
        set_policy(0, SCHED_OTHER);
}

/* If the thread runs for long, load balancing may move it: now and then the tool follows it. */
void cpu_follow_turn(struct cpu_follow *follow)
{
    unsigned turn = atomic_fetch_add_explicit(&follow->turns, 1, memory_order_relaxed);

    if (turn % FOLLOW_EVERY == 0 && follow->pinned && !atomic_load(&follow->given_up))
        move_to_thread(follow);
}

void cpu_follow_end(struct cpu_follow *follow)
{
    if (follow->monitored) {
        set_policy(0, SCHED_OTHER);
        sem_post(&follow->over);
        pthread_join(follow->monitor, NULL);
        sem_destroy(&follow->over);
    }
    if (follow->pinned)
        sched_setaffinity(0, sizeof follow->former, &follow->former);
    util_close(&follow->stat);
    memset(follow, 0, sizeof *follow);
}
