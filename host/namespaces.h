/*
 * The namespaces of a process relative to the tool's: its user namespace, which
 * decides whether the tool's capabilities count, and its pid namespace.
 */
#pragma once

#include "host/procfs.h"

#include <stdbool.h>

enum userns {
    USERNS_UNKNOWN, /* the kernel does not show it */
    USERNS_SAME,
    USERNS_BELOW,   /* a descendant of the tool's: the tool's capabilities count there */
    USERNS_OWNED,   /* a descendant that the tool's user created, who has all capabilities there */
    USERNS_OTHER,   /* another one; a descendant or not is unknown */
    USERNS_OUTSIDE, /* not a descendant of the tool's: the tool has no capabilities there */
};

/*
 * Compares /proc/PID/ns/user and its ancestors (ioctl_ns(2)) with the tool's own.
 * Only users who may read the process see the links. For others, compares its
 * uid_map with the tool's, which everybody may read.
 */
enum userns userns_of(const struct procfs *proc, pid_t pid);

/* Processes that have a given pid in a descendant of the tool's pid namespace: in a container. */
struct namesakes {
    pid_t here[4]; /* the first few: their pids as the tool sees them */
    size_t count;  /* of all of them */
};

/* Searches all of /proc, for a pid that does not exist in the tool's pid namespace. */
void namesakes_find(struct namesakes *found, const struct procfs *proc, pid_t pid);

/*
 * True if an unprivileged process cannot have made the mounts of this one: it has the tool's
 * mount namespace, or one that belongs to the tool's user namespace (NS_GET_USERNS), where a
 * mount needs CAP_SYS_ADMIN. False for a mount namespace of a user namespace below, which anybody
 * can make (unshare -Urm), and if the kernel does not show it. True for a recording without
 * namespaces.
 */
bool namespaces_vouch_for_mounts(const struct procfs *proc, pid_t pid);

/*
 * True if CLOCK_MONOTONIC is the same for a process or thread and for the tool: in another time
 * namespace it may differ (time_namespaces(7)). False also if that cannot be read.
 */
bool namespaces_share_clock(const struct procfs *proc, pid_t pid);
