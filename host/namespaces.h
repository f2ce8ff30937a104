/*
 * The namespaces of a process, as seen from the tool's: of users, where the
 * tool's capabilities count or do not, and of pids.
 */
#pragma once

#include "host/procfs.h"

enum userns {
    USERNS_UNKNOWN, /* the kernel does not tell */
    USERNS_SAME,
    USERNS_BELOW,   /* in one below the tool's: the tool's capabilities count there */
    USERNS_OWNED,   /* the same, and the tool's user made it, so has all capabilities there */
    USERNS_OTHER,   /* in another one; below or not is not told */
    USERNS_OUTSIDE, /* above the tool's, or beside it: the tool has no capabilities there */
};

/*
 * Compares /proc/PID/ns/user with the tool's own, and asks for its parents
 * (ioctl_ns(2)). The links are shown to who may read the process alone: else
 * its uid_map is compared with the tool's, which everybody may read.
 */
enum userns userns_of(const struct procfs *proc, pid_t pid);

/* Processes that have a given pid in a pid namespace below the tool's: in a container. */
struct namesakes {
    pid_t here[4]; /* their pids as the tool sees them, the first few */
    size_t count;  /* of all */
};

/* Looks through all of /proc; for a pid that does not exist here. */
void namesakes_find(struct namesakes *found, const struct procfs *proc, pid_t pid);
