/*
 * Other runs of the tool that sample the same process, so that the last one switches
 * prof.active off.
 *
 * Each run holds locks (F_OFD_SETLK, fcntl(2)) on /proc/PID/maps, one byte for each mark.
 * The kernel keeps one inode for the file of a process while anyone has it open, and
 * releases the locks at the end of the run, whatever ends it. No program locks this file,
 * and only who may read the memory of the process can open it. Runs that see the process
 * through different mounts of /proc do not see each other.
 */
#pragma once

#include "attach/target.h"

enum peer_mark {
    PEER_AT_WORK, /* it samples the process */
    PEER_OWES,    /* prof.active is true because of it, and false afterwards */
};

struct peers {
    bool opened;
    int fd;
    bool entered;
};

/* Without /proc/PID/maps, or where locks are refused, no run is ever seen. Idempotent. */
void peers_open(struct peers *peers, const struct target *target);
/* Removes all marks of this run. */
void peers_close(struct peers *peers);

/* Sets or removes a mark of this run. */
void peers_mark(const struct peers *peers, enum peer_mark mark, bool set);
/* True if another run has that mark. */
bool peers_others(const struct peers *peers, enum peer_mark mark);
/* True if a run of the tool samples the process. */
bool peers_sample(const struct target *target);

/*
 * Between the two, no other run reads marks or prof.active and acts on them. may_wait: for
 * up to five seconds until another run has left; false while a thread is stopped. True if the
 * caller has to leave; false if it is entered already, or without success: then it goes on
 * all the same, as a run that hangs must not stop the others.
 */
bool peers_enter(struct peers *peers, bool may_wait);
void peers_leave(struct peers *peers);
