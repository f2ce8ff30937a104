/*
 * Other runs of the tool that sample the same process, so that the last one switches
 * prof.active off.
 *
 * Each run holds locks (F_SETLK, fcntl(2)) on /proc/PID/numa_maps, one byte for each mark. The
 * kernel keeps one inode for the file of a process while anyone has it open, and releases the
 * locks at the end of the run, whatever ends it, or when it closes any descriptor of the file:
 * the tool opens this one nowhere else. Only who may read the memory of the process can open
 * it. That may be the process itself, so a lock counts only if a process of root or of the
 * tool's own user holds it. Runs that see the process through different mounts of /proc do
 * not see each other.
 */
#pragma once

#include "attach/target.h"
#include "base/interruptions.h"

enum peer_mark {
    PEER_AT_WORK, /* it samples the process */
    PEER_OWES,    /* prof.active is true because of it, and false afterwards */
    PEER_INSIDE,  /* between peers_enter and peers_leave */
};

struct peers {
    bool opened;
    const struct procfs *proc;
    int fd;
    bool entered;
    unsigned tries; /* left to enter, of all waits together */
};

/* Without that file, or where locks are refused, no run is ever seen. Idempotent. */
void peers_open(struct peers *peers, const struct target *target);
/* Removes all marks of this run. */
void peers_close(struct peers *peers);

/* Sets or removes a mark of this run. */
void peers_mark(const struct peers *peers, enum peer_mark mark, bool set);
/* True if another run has that mark. */
bool peers_others(const struct peers *peers, enum peer_mark mark);
/* True if a run of the tool samples the process. Not for a process that holds marks of it. */
bool peers_sample(const struct target *target);

/*
 * Between the two, no other run reads marks or prof.active and acts on them. Waits until
 * another run has left, for half of the time until the deadline, and some five seconds in all
 * waits of this run; NULL: does not wait, as while a thread is stopped. True if the caller has
 * to leave; false if it is entered already, or without success: then it goes on all the same,
 * as a run that hangs must not stop the others.
 */
bool peers_enter(struct peers *peers, const struct deadline *deadline);
void peers_leave(struct peers *peers);
