/* The members of a cgroup, from the cgroup file system. */
#pragma once

#include "host/processes.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

/*
 * Lists the processes of the group `path` and of all groups below it, in order;
 * processes_free releases them. The path is that of a group's directory, or is
 * relative to `root` (CGROUP_ROOT) or to the mount of one hierarchy below it
 * (v1): then the group of that name in every hierarchy that has it is meant. No
 * link and no ".." leads out of root.
 *
 * FAULT_NO_GROUP: there is no such group.
 */
fault_code cgroup_members(struct processes *members, const char *root, const char *path,
                          struct fault *fault);
