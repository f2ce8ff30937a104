#include "run/stall_guard.h"
#include "base/util.h"
#include "host/task.h"
#include "inject/syscalls.h"
#include "run/faults.h"
#include "run/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

enum {
    GRACE_NS = 1000000000,
    LOOK_NS = 200000000,
    LOOKS = 25,
    LOOKS_STOPPED = 10,
    STACK_SIZE = 256 << 10,
};

/* True for calls that read a target or its files; not for writes to the operator's. */
static bool is_read_call(long nr)
{
    static const long calls[] = {
        SYS_process_vm_readv,
        SYS_process_vm_writev,
        SYS_pread64,
        SYS_pwrite64,
        SYS_read,
        SYS_openat,
        SYS_openat2,
        SYS_ptrace,
        SYS_readlinkat,
        SYS_newfstatat,
        SYS_fstat,
        SYS_statx,
        SYS_fstatfs,
        SYS_getdents64,
    };

    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        if (calls[i] == nr)
            return true;
    return false;
}

/*
 * Sets call to "270 0x1c...", the system call of the watched thread with its
 * arguments, if it waits uninterruptibly; else to "".
 */
static void read_call(const struct stall_guard *stall_guard, char *call, size_t size)
{
    struct proc_stat stat;
    struct procfs proc;
    ssize_t n = 0;

    call[0] = '\0';
    if (procfs_open(&proc, "/proc") != 0)
        return;
    if (thread_stat(&proc, PROC_SELF, stall_guard->watched, &stat) == 0 && stat.state == 'D')
        n = procfs_read(&proc, call, size, "self/task/%d/syscall", (int)stall_guard->watched);
    procfs_close(&proc);
    if (n <= 0 || !is_read_call(strtol(call, NULL, 10)))
        call[0] = '\0';
}

/* True if the guard was stopped, false if the time has come. */
static bool sleep_until(struct stall_guard *stall_guard, uint64_t at)
{
    const struct timespec until = {(time_t)(at / 1000000000), (long)(at % 1000000000)};
    int rc;

    do
        rc = sem_clockwait(&stall_guard->stop, CLOCK_MONOTONIC, &until);
    while (rc && errno == EINTR);
    return rc == 0;
}

static fault_code fault_of_case(const struct stall_guard_case *what)
{
    if (what->frozen)
        return FAULT_NO_ANSWER_FROZEN;
    return what->tid && *what->tid ? FAULT_NO_ANSWER_HELD : FAULT_NO_ANSWER;
}

static _Noreturn void give_up(const struct stall_guard *stall_guard, long nr)
{
    const struct stall_guard_case *what = &stall_guard->what;
    struct fault fault = {0};

    fault_set(&fault, fault_of_case(what), ETIMEDOUT, "read", "%s",
              syscall_name(nr) ? syscall_name(nr) : "a system call");
    _exit(what->stalled(what->ctx, &fault));
}

/* Returns in how many checks the call must have been the same; 0: it may last. */
static int looks_enough(const struct stall_guard *stall_guard)
{
    const struct stall_guard_case *what = &stall_guard->what;

    if (what->frozen || (what->held && *what->held))
        return LOOKS_STOPPED;
    return clock_now() >= stall_guard->at ? LOOKS : 0;
}

static void *guard_main(void *arg)
{
    struct stall_guard *stall_guard = arg;
    char before[256] = "", now[256] = "";
    uint64_t at = stall_guard->what.held ? clock_now() + LOOK_NS : stall_guard->at;

    cpu_pin_end(&stall_guard->pin);
    for (int same = 0; !sleep_until(stall_guard, at); at = clock_now() + LOOK_NS) {
        int enough = looks_enough(stall_guard);
        now[0] = '\0';
        if (enough)
            read_call(stall_guard, now, sizeof now);
        same = now[0] && strcmp(now, before) == 0 ? same + 1 : 0;
        if (enough && same >= enough)
            give_up(stall_guard, strtol(now, NULL, 10));
        memcpy(before, now, sizeof before);
    }
    return NULL;
}

/*
 * The ticks of the deadline are for the watched thread; a second Ctrl-C is handled here. Stop
 * signals of job control are blocked: they would stop the tool while a thread of the target is
 * stopped.
 */
static int start_thread(struct stall_guard *stall_guard)
{
    pthread_attr_t attr;
    sigset_t others, mask;
    int err = pthread_attr_init(&attr);

    if (err)
        return err;
    sigemptyset(&others);
    sigaddset(&others, SIGALRM);
    interrupt_add_stops(&others);
    pthread_sigmask(SIG_BLOCK, &others, &mask);
    (void)pthread_attr_setstacksize(&attr, STACK_SIZE);
    cpu_pin_begin(&stall_guard->pin);
    err = pthread_create(&stall_guard->thread, &attr, guard_main, stall_guard);
    cpu_pin_end(&stall_guard->pin);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    pthread_attr_destroy(&attr);
    return err;
}

void stall_guard_start(struct stall_guard *stall_guard, uint64_t timeout_ns,
                       const struct stall_guard_case *what)
{
    *stall_guard =
        (struct stall_guard){.at = clock_now() + timeout_ns + (what->frozen ? 0 : GRACE_NS),
                             .watched = (pid_t)syscall(SYS_gettid),
                             .what = *what};
    if (!what->stalled || sem_init(&stall_guard->stop, 0, 0))
        return;
    stall_guard->started = start_thread(stall_guard) == 0;
}

void stall_guard_follow(struct stall_guard *stall_guard)
{
    stall_guard->watched = (pid_t)syscall(SYS_gettid);
}

void stall_guard_stop(struct stall_guard *stall_guard)
{
    if (!stall_guard->started)
        return;
    sem_post(&stall_guard->stop);
    pthread_join(stall_guard->thread, NULL);
    sem_destroy(&stall_guard->stop);
    stall_guard->started = false;
}
