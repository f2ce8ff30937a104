/*
 * The priority of the calling thread, raised for each stop of a target's thread, which waits for
 * the tool's CPU meanwhile.
 */
#pragma once

#include "host/procfs.h"

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
