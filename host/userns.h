/* Which user namespace the target is in, as seen from the tool's: capabilities count only there. */
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
