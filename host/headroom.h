/* How much memory the cgroups of a process still allow it. */
#pragma once

#include "host/cgroup.h"

struct headroom {
    uint64_t bytes; /* free below the limit, plus memory that the kernel can reclaim for it */
    /* The cgroup with the least headroom: its directory as the tool sees it. */
    char group[CGROUP_DIR_MAX];
};

/*
 * Reads the headroom of the process's memory cgroup and its ancestors, v1 or v2.
 * Looks at the usual places, in the tool's file tree and in the process's. False if
 * no limit is visible, or there is swap. The kernel may charge a batch of 64 pages
 * per CPU in advance. That batch counts as used, although the kernel would release
 * it: its size cannot be read (seen in tests/vm, cgroup.memory).
 */
bool headroom_read(const struct procfs *proc, pid_t pid, struct headroom *out);
