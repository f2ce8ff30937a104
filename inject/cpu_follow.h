/*
 * Runs the tool on the CPU of the thread that it follows.
 *
 * During a dump thread and tool wait for each other a thousand times and more.
 * On two CPUs each turn wakes an idle one, which costs some 50 microseconds in
 * a virtual machine; on one CPU it is only a context switch. Internal to
 * inject/.
 *
 * The tool pins itself, never the thread. But at each resume the scheduler
 * would move the thread away from the CPU on which the tool runs, unless the
 * tool has the policy SCHED_IDLE: then that CPU counts as idle
 * (kernel/sched/fair.c, select_idle_sibling, sched_idle_cpu). Measured on an
 * idle machine with two CPUs, a dump of 43 MB stopped its thread for 1.4 times
 * the cost in-process without the policy, and 1.07 times with it.
 *
 * A SCHED_IDLE tool can be starved by any other work on that CPU: while the
 * thread is stopped, and when it has to give the call up at its deadline, or at
 * the operator's word, while the thread is running (seconds on a host with
 * several busy threads per CPU). A second thread of the tool watches for both
 * and raises the priority again within three milliseconds. Whether it may do so
 * is tried before any thread is stopped; the policy is used only if it may.
 */
#pragma once

#include "attach/deadline.h"
#include "attach/threads.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

struct cpu_follow {
    bool pinned, monitored;
    int cpu;          /* the CPU it is pinned to; -1: none */
    cpu_set_t former; /* the tool's former CPU affinity */
    const struct target *target;
    const struct deadline *until;
    pid_t tid;            /* the thread that is followed */
    pid_t self;           /* the thread of the tool that follows */
    int stat;             /* /proc/PID/task/TID/stat of the thread; negative: not opened */
    atomic_bool given_up; /* set by the monitor */
    atomic_uint turns;    /* number of turns */
    sem_t over;
    pthread_t monitor;
};

/*
 * True if a thread that has switched to SCHED_IDLE may return. Tried with the
 * calling thread's nice value, which is restored.
 */
bool cpu_follow_may_idle(void);

/*
 * Starts to follow a thread of the target. may_idle: the result of
 * cpu_follow_may_idle; if false, the tool is pinned and keeps its policy. until:
 * when the tool has to act although the thread does not stop; must stay valid
 * until cpu_follow_end. Does nothing if it is not permitted.
 */
void cpu_follow_begin(struct cpu_follow *follow, const struct target *target, pid_t tid,
                      const struct deadline *until, bool may_idle);
/* Call it at each turn: it shows that the tool is not starved. */
void cpu_follow_turn(struct cpu_follow *follow);
/* Undoes everything. */
void cpu_follow_end(struct cpu_follow *follow);
