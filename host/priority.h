/*
 * The priority of the calling thread, raised while another process is stopped and
 * waits for it.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct priority {
    int nice;             /* the former nice value */
    bool ordinary, first; /* it was of SCHED_OTHER; it has the lowest nice value now */
};

/*
 * Makes the calling thread the first among ordinary ones, by its nice value. Has no
 * effect where that is not permitted (CAP_SYS_NICE, RLIMIT_NICE), or for a thread of
 * another scheduling class than SCHED_OTHER.
 */
void priority_raise(struct priority *priority);

/*
 * For a few milliseconds: also makes it a real-time thread of the lowest priority
 * (SCHED_FIFO), or an ordinary one again. For moments in which threads that the tool
 * resumes would take its CPU.
 */
void priority_hurry(const struct priority *priority, bool on);

/*
 * Before a real-time thread (SCHED_FIFO, SCHED_RR) is stopped: makes the calling thread a
 * real-time thread of the next priority. Otherwise other threads of that priority, which wait for
 * the CPU of the stopped one, would run for as long as they like while it waits for the tool. Has
 * no effect if the thread tid is none, or where that is not permitted (CAP_SYS_NICE).
 */
void priority_above(struct priority *priority, pid_t tid);

/* Restores the former priority; idempotent. */
void priority_restore(struct priority *priority);
