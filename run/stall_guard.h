/*
 * Ends the tool if a system call never returns.
 *
 * A page or a file of the target may come from a process that does not answer:
 * userfaultfd(2), a FUSE or NFS server. A read of it waits in the kernel, and
 * only SIGKILL ends that wait. After the deadline, after Ctrl-C, and while a
 * thread of the target is stopped, a separate thread checks whether the watched
 * thread is in one such call for seconds, uninterruptibly; if so, it reports
 * that and ends the process. Long computations and waiting for the reader of the
 * output are not ended.
 */
#pragma once

#include "base/fault.h"
#include "host/priority.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/types.h>

struct stall_guard_case {
    const volatile pid_t *tid; /* the thread that was stopped; NULL or 0: none */
    /* The thread that is stopped now, which two seconds in one call are the limit for, also before
     * the deadline; NULL or 0: none. */
    const volatile pid_t *held;
    /*
     * Reports the fault and returns the exit status. The watched thread is in
     * the kernel then and holds no lock of the C library. NULL: no guard.
     */
    int (*stalled)(void *ctx, const struct fault *fault);
    void *ctx;
};

struct stall_guard {
    struct cpu_pin pin;
    pthread_t thread;
    sem_t begun, stop;
    bool started;
    uint64_t at;           /* CLOCK_MONOTONIC ns: when a call may not last any longer */
    _Atomic pid_t watched; /* the thread that reads */
    struct stall_guard_case what;
};

#define STALL_GUARD_NO_DEADLINE (UINT64_MAX / 2) /* only Ctrl-C */

/*
 * Watches the calling thread. Does nothing if no thread can be created. The guard allocates nothing
 * once this has returned: the tool forks, and not every allocator (the sanitizers') can be used in
 * the child if another thread was in it.
 */
void stall_guard_start(struct stall_guard *stall_guard, uint64_t timeout_ns,
                       const struct stall_guard_case *what);
/* Watches the calling thread from now on: during a hold the reads are in a thread of its own. */
void stall_guard_follow(struct stall_guard *stall_guard);
void stall_guard_stop(struct stall_guard *stall_guard);
