/* How much memory the control groups of a process still let it have. */
#pragma once

#include "host/cgroup.h"

#include <stdbool.h>
#include <stdint.h>

struct headroom {
    uint64_t bytes; /* free below the limit, or taken by what the kernel may drop for it */
    /* The group with the least: its directory as the tool sees it. */
    char group[CGROUP_DIR_MAX];
};

/*
 * Of a process's memory groups, its own and those around it, of either version.
 * Looks where the hierarchies are by convention, in the tool's file tree and in
 * that of the process. False: no limit is to be seen, or there is swap. A batch
 * of 64 pages that the kernel may keep ahead for each processor counts as used,
 * though it gives that back as well: nothing tells how much it is (seen in
 * tests/vm, cgroup.memory).
 */
bool headroom_read(const struct procfs *proc, pid_t pid, struct headroom *out);
