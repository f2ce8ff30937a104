/*
 * A way out of a system call that never ends.
 *
 * A page or a file of the target may come from a process that does not answer:
 * userfaultfd(2), a FUSE or NFS server. Who reads it waits in the kernel, and
 * no signal but SIGKILL ends that wait. A thread of its own looks, once the
 * deadline has passed, whether the thread that made it stands in one such call
 * for seconds, uninterruptibly, and then says so and ends the tool. Work that
 * lasts (a large report) is not ended, nor is waiting for the reader of the
 * output.
 */
#pragma once

#include "base/fault.h"
#include "host/cpu_pin.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct stall_guard_case {
    const volatile pid_t *tid; /* the thread that was stopped; NULL or 0: none */
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
    sem_t stop;
    bool started;
    uint64_t at;   /* CLOCK_MONOTONIC ns; from then on it looks */
    pid_t watched; /* the thread that reads */
    struct stall_guard_case what;
};

/* Watches the calling thread. Without memory for a thread there is none. */
void stall_guard_start(struct stall_guard *stall_guard, uint64_t timeout_ns,
                       const struct stall_guard_case *what);
void stall_guard_stop(struct stall_guard *stall_guard);
