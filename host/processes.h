/* Sets of processes: those of the host, as /proc lists them, and the members of a cgroup. */
#pragma once

#include "base/fault.h"
#include "host/procfs.h"

struct processes {
    pid_t *list; /* ascending */
    size_t count, capacity;
};

/* Lists all pids, including kernel threads and zombies. processes_free releases the list. */
fault_code processes_list(struct processes *processes, const struct procfs *proc,
                          struct fault *fault);
void processes_free(struct processes *processes);

/* Adds one at the end; false: out of memory. */
bool processes_add(struct processes *processes, pid_t pid);
/* Sorts them and removes duplicates. */
void processes_sort(struct processes *processes);
/* True if it is in the list, which must be sorted. */
bool processes_has(const struct processes *processes, pid_t pid);

/*
 * Adds a process and its ancestors. Stops at the first unreadable ancestor. Sorts
 * the list. False: out of memory.
 */
bool processes_add_ancestors(struct processes *processes, const struct procfs *proc, pid_t pid);

/*
 * Adds to `family` those members of `all` that have a member of it as an ancestor,
 * by their present parents: an orphan belongs to the process that adopted it. Both
 * lists must be sorted. False: out of memory.
 */
bool processes_add_descendants(struct processes *family, const struct processes *all,
                               const struct procfs *proc);

/*
 * Lists the processes of a cgroup's directory likewise, and below it. Looks at no more than so many
 * cgroups and processes together; *whole: these are all. False: out of memory.
 */
bool processes_of_group(struct processes *members, int group, size_t most, bool *whole);

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
