/* The members of a cgroup, from the cgroup file system. */
#pragma once

#include "host/processes.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

/*
 * Lists the processes of the cgroup `path` and of all cgroups below it, in
 * ascending order; processes_free releases the list. The path is a cgroup's
 * directory, or is relative to `root` (CGROUP_ROOT), or with cgroup v1 to the mount
 * of one hierarchy below root: then it names one cgroup in every hierarchy that has
 * it. No link and no ".." leads out of root.
 *
 * FAULT_NO_GROUP: there is no such cgroup.
 */
fault_code cgroup_members(struct processes *members, const char *root, const char *path,
                          struct fault *fault);
