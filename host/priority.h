/*
 * The priority of the calling thread, raised while another process is stopped and
 * waits for it.
 */
#pragma once

#include <stdbool.h>

struct priority {
    int nice;             /* the former nice value */
    bool ordinary, first; /* of SCHED_OTHER; it has the lowest nice value now */
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

/* Restores the former priority; idempotent. */
void priority_restore(struct priority *priority);
