/*
 * The tool's standing among the others on the machine: the priority of the calling thread, raised
 * for each stop of a target's thread, which waits for the tool's CPU meanwhile; the CPU of its new
 * threads; and whom the kernel kills first.
 */
#pragma once

#include "host/procfs.h"

#include <sched.h>
#include <stdbool.h>

struct priority {
    int policy, nice;    /* the former ones */
    bool raised, nicest; /* it is a real-time thread; it has the lowest nice value */
};

/*
 * Before a thread is stopped: makes the calling thread a real-time thread (SCHED_FIFO), of the
 * next priority if the thread tid is real-time itself. Otherwise other threads, which wait for the
 * CPU of the stopped one, would run for as long as they like while it waits for the tool. Where
 * only that is possible, it gets the lowest nice value, and without effect where neither is
 * permitted (CAP_SYS_NICE, RLIMIT_RTPRIO, RLIMIT_NICE). False if it stays an ordinary thread and
 * tid is real-time. What the calling thread forks meanwhile has an ordinary priority. A thread
 * that is real-time already keeps its priority.
 */
bool priority_raise(struct priority *priority, pid_t tid);

/* Restores the former priority; idempotent. */
void priority_restore(struct priority *priority);

/*
 * Finds out whether the calling thread gets a CPU soon enough to stop threads of the process: it
 * may have real-time priority, or has an ordinary one not below that of the first thread, in
 * cgroups with more than the smallest share, and a tenth of a CPU. False, with the reason.
 */
bool priority_suffices(const struct procfs *proc, pid_t pid, char *why, size_t size);

/*
 * Pins the tool's new threads to the CPU of their creator. The kernel starts a new
 * thread on the least busy CPU. If all are busy, that may be the CPU of one of the
 * target's threads, which would stand still while the new thread starts
 * (bench/attach, "gap of a spinning other").
 */
struct cpu_pin {
    cpu_set_t former; /* the CPUs that the calling thread was allowed to use */
    bool kept;
};

/*
 * Pins the calling thread to its CPU; the threads that it starts from here on
 * inherit that. Changes nothing if the kernel does not allow it, or has more than
 * 1024 CPUs.
 */
void cpu_pin_begin(struct cpu_pin *pin);
/* Allows the calling thread its former CPUs again. Both call it: the creator and the new thread. */
void cpu_pin_end(const struct cpu_pin *pin);

/*
 * At a memory limit that the tool and its target share, such as that of a pod, the kernel chooses
 * by size whom it kills, which would be the target.
 * Makes the tool the first choice (proc(5), oom_score_adj 1000), which needs no rights; what
 * it starts inherits that. A target goes on when the tool dies. Cannot fail: without a
 * writable /proc nothing changes.
 */
void oom_score_volunteer(void);
