/*
 * Running the tool on the processor of the thread that it follows.
 *
 * During a dump thread and tool always wait for each other, a thousand times
 * and more. On two processors each turn wakes an idle one, which in a virtual
 * machine costs some 50 microseconds; on one it is a mere switch. Internal to
 * inject/.
 *
 * The tool pins itself, never the thread. But at each resume the scheduler
 * would move the thread away from the processor on which the tool runs: unless
 * the tool has the policy SCHED_IDLE, for then that processor counts as idle
 * (kernel/sched/fair.c, select_idle_sibling, sched_idle_cpu). Measured on an
 * idle machine with two processors, a dump of 43 MB held its thread for 1.4
 * times the cost in-process without, and 1.07 times with it.
 *
 * A SCHED_IDLE tool can be starved by any other work on that processor while
 * the thread is held. A second thread of the tool watches for that and raises
 * it again within three milliseconds. Whether it may is tried before any thread
 * is held, and only then is the policy used.
 */
#pragma once

#include "attach/threads.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

struct cpu_follow {
    bool pinned, monitored;
    int cpu;          /* to which it is pinned; -1: none */
    cpu_set_t former; /* the tool's own processors */
    const struct target *target;
    pid_t tid;            /* the thread that is followed */
    pid_t self;           /* the thread of the tool that follows */
    int stat;             /* /proc/PID/task/TID/stat of the thread; negative: not opened */
    atomic_bool given_up; /* by the monitor */
    atomic_uint turns;    /* how often it has come round */
    sem_t over;
    pthread_t monitor;
};

/*
 * May a thread that has gone to SCHED_IDLE come back? Tried with the calling
 * thread's nice value, which is as before afterwards.
 */
bool cpu_follow_may_idle(void);

/*
 * Begins to follow with a thread of the target. may_idle: the answer of
 * cpu_follow_may_idle; without it the tool is pinned and its policy stays. Where it
 * is not permitted nothing happens.
 */
void cpu_follow_begin(struct cpu_follow *follow, const struct target *target, pid_t tid,
                      bool may_idle);
/* To be called at each turn: the tool is not starved. */
void cpu_follow_turn(struct cpu_follow *follow);
/* Undoes it all. */
void cpu_follow_end(struct cpu_follow *follow);
