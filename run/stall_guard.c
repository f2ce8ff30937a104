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
    GRACE_NS = 600000000,
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

static _Noreturn void give_up(const struct stall_guard *stall_guard, long nr)
{
    const struct stall_guard_case *what = &stall_guard->what;
    fault_code code = clock_now() < stall_guard->at ? FAULT_INTERRUPTED : FAULT_NO_ANSWER;
    struct fault fault = {0};

    if (what->tid && *what->tid)
        code = FAULT_NO_ANSWER_HELD;
    fault_set(&fault, code, ETIMEDOUT, "read", "%s",
              syscall_name(nr) ? syscall_name(nr) : "a system call");
    _exit(what->stalled(what->ctx, &fault));
}

/* Returns in how many checks the call must have been the same; 0: it may last. */
static int looks_enough(const struct stall_guard *stall_guard, int same)
{
    const struct stall_guard_case *what = &stall_guard->what;
    const uint64_t now = clock_now(), at = stall_guard->at;

    if (what->held && *what->held)
        return LOOKS_STOPPED;
    if (now >= at) /* a call that began before the deadline is late as it is */
        return now - at < (uint64_t)same * LOOK_NS ? LOOKS_STOPPED : LOOKS;
    return *interrupt_flag() ? LOOKS : 0;
}

static void *guard_main(void *arg)
{
    struct stall_guard *stall_guard = arg;
    char before[256] = "", now[256] = "";
    sigset_t all, mask;
    int rc, same = 0;

    sigfillset(&all);
    cpu_pin_end(&stall_guard->pin);
    sem_post(&stall_guard->begun);
    for (;;) {
        const uint64_t at = clock_now() + LOOK_NS;
        const struct timespec until = {(time_t)(at / 1000000000), (long)(at % 1000000000)};
        do
            rc = sem_clockwait(&stall_guard->stop, CLOCK_MONOTONIC, &until);
        while (rc && errno == EINTR);
        if (rc == 0)
            return NULL;

        read_call(stall_guard, now, sizeof now);
        same = now[0] && strcmp(now, before) == 0 ? same + 1 : 0;
        if (same) {
            /*
             * The kernel gives a signal to the watched thread, which does not take it in such a
             * call. A change of the own mask makes it look for signals that this thread may take.
             */
            pthread_sigmask(SIG_BLOCK, &all, &mask);
            pthread_sigmask(SIG_SETMASK, &mask, NULL);
        }
        int enough = looks_enough(stall_guard, same);
        if (enough && same >= enough)
            give_up(stall_guard, strtol(now, NULL, 10));
        memcpy(before, now, sizeof before);
    }
}

void stall_guard_start(struct stall_guard *stall_guard, uint64_t timeout_ns,
                       const struct stall_guard_case *what)
{
    pthread_attr_t attr;
    sigset_t others, mask;

    *stall_guard = (struct stall_guard){.at = clock_now() + timeout_ns + GRACE_NS,
                                        .watched = (pid_t)syscall(SYS_gettid),
                                        .what = *what};
    if (!what->stalled || sem_init(&stall_guard->begun, 0, 0) ||
        sem_init(&stall_guard->stop, 0, 0) || pthread_attr_init(&attr))
        return;
    /*
     * The ticks of the deadline are for the watched thread; a second Ctrl-C is handled here. Stop
     * signals of job control are blocked: they would stop the tool while a thread of the target is
     * stopped.
     */
    sigemptyset(&others);
    sigaddset(&others, SIGALRM);
    interrupt_add_stops(&others);
    pthread_sigmask(SIG_BLOCK, &others, &mask);
    (void)pthread_attr_setstacksize(&attr, STACK_SIZE);
    cpu_pin_begin(&stall_guard->pin);
    stall_guard->started =
        pthread_create(&stall_guard->thread, &attr, guard_main, stall_guard) == 0;
    cpu_pin_end(&stall_guard->pin);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    pthread_attr_destroy(&attr);
    while (stall_guard->started && sem_wait(&stall_guard->begun) && errno == EINTR)
        continue;
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
    sem_destroy(&stall_guard->begun);
    sem_destroy(&stall_guard->stop);
    stall_guard->started = false;
}
