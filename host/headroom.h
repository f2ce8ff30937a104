/* How much memory the cgroups of a process still allow it. */
#pragma once

#include "host/cgroup.h"

struct headroom {
    /*
     * Free below the limit, plus what the kernel gives back without fail for one more page:
     * clean page cache that is not locked, and what still fits into swap.
     */
    uint64_t bytes;
    /* The cgroup with the least headroom: its directory as the tool sees it. */
    char group[CGROUP_DIR_MAX];
};

/*
 * Reads the headroom of the process's memory cgroup and its ancestors, v1 or v2.
 * Looks at the usual places, in the tool's file tree and in the process's. False if
 * no limit is visible. The kernel may charge a batch of 64 pages per CPU in advance.
 * That batch counts as used, although the kernel would release it: its size cannot
 * be read (seen in tests/vm, cgroup.memory).
 *
 * cpus: those of the machine. memory.stat is of up to two seconds ago, unless more than 64
 * pages for each CPU have changed since, and each CPU keeps 64 more to itself
 * (mm/memcontrol.c, memcg_rstat_updated, memcg_vmstats_needs_flush). So much of its numbers does
 * not count: the kernel may have dropped that page cache already.
 *
 * Not counted: kernel memory, of which nothing is certain to come back (v1 shows only
 * its sum, and slab caches shrink when they want); dirty pages and those under
 * writeback, which wait for a disk; and mapped pages: one that is in use comes back at
 * once, and the kernel may find none to drop in time.
 */
bool headroom_read_on(const struct procfs *proc, pid_t pid, unsigned cpus, struct headroom *out);
/* Does the same on this machine. */
bool headroom_read(const struct procfs *proc, pid_t pid, struct headroom *out);
