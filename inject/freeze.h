/*
 * Stops all threads of a process for a read of its memory, and resumes them.
 *
 * Each thread is seized and interrupted (no SIGSTOP, no PTRACE_O_EXITKILL): if the
 * tool dies at any moment, the kernel resumes all of them. No register is changed but
 * the result of a system call that the stop has ended with EINTR: the kernel repeats
 * the call when the thread is resumed, by the tool or by its death, unless a signal
 * handler runs (arch_repeat_unless_handled). Until the tool has changed it, the death
 * of the tool shows the EINTR: so only few threads at a time are between the two
 * (FREEZE_WINDOW). Processes that share its memory (a vfork(2) child) are
 * not stopped.
 */
#pragma once

#include "attach/session.h"
#include "host/priority.h"

/* What a freeze works with. All of it must outlive the freeze. */
struct freeze_env {
    const struct target *target;
    struct gate *gate;
    const struct deadline *deadline;
};

/* A thread, before the first stop. */
enum freeze_kind {
    FREEZE_RUNS,
    FREEZE_SLEEPS, /* in a system call that the kernel repeats, if a stop ends it */
    FREEZE_WAITS,  /* in one that a stop may end with EINTR, or in an unknown one */
};

/*
 * Of the last kind, at most so many threads are interrupted and not yet put right: these can see an
 * EINTR if the tool dies. Where the threads have to wait for a CPU, each turn costs that time: the
 * number doubles with each such wait, up to the second one.
 */
enum { FREEZE_WINDOW = 8, FREEZE_WINDOW_MOST = 64 };

struct freeze_thread {
    struct session session;
    enum freeze_kind kind;
    uint64_t ticks; /* CPU time when it was first seen not to stop, clock ticks, plus 1; 0: never */
};

struct freeze {
    struct freeze_env env;
    struct freeze_thread *list; /* in the order in which /proc showed them */
    size_t count, capacity, waited;
    size_t window;     /* FREEZE_WINDOW to FREEZE_WINDOW_MOST */
    size_t cursor;     /* where the next thread in /proc is expected in the list */
    uint64_t begun_at; /* CLOCK_MONOTONIC ns: just before the first interrupt; 0: none yet */
    size_t threads;    /* that were stopped */
    struct priority priority;
    uint64_t ns; /* after freeze_end: from the first interrupt to the last detach */
};

/*
 * Stops all threads, also those that are created meanwhile. A process with a
 * thread that cannot be stopped now (uninterruptible, or in a system call that the stop
 * might end or repeat) is waited for, up to one second, before any thread is stopped. From the
 * first interrupt on it takes at most one second. It is given up earlier if for some 50
 * ms no thread has stopped and each that is missing is uninterruptible or busy in the
 * kernel; one that waits for a CPU is waited for. FAULT_NO_FREEZE, FAULT_TRACED,
 * FAULT_FROZEN, FAULT_DENIED*, FAULT_GONE, FAULT_EXECED, FAULT_INTERRUPTED. After any fault no
 * thread is stopped, but one that did not stop in time is detached only by the end of the calling
 * thread of the tool. freeze_end is needed in any case.
 */
fault_code freeze_begin(struct freeze *freeze, const struct freeze_env *env, struct fault *fault);

/* Resumes all threads, passes on the signals that have stopped some. Idempotent. */
void freeze_end(struct freeze *freeze);
