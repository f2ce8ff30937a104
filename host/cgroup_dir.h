/* Where the control groups of a process lie as directories, from the texts of /proc. */
#pragma once

#include "host/procfs.h"

#include <limits.h>
#include <stdbool.h>

enum cgroup_tree {
    CGROUP_V1_MEMORY, /* the hierarchy of version 1 that has the memory controller */
    CGROUP_V2,        /* the one of version 2 */
};

/*
 * Of the text of /proc/PID/cgroup: the group's path in that tree. False if the
 * process is in none, or the path is longer than size - 1 bytes.
 */
bool cgroup_tree_path(const char *text, size_t len, enum cgroup_tree tree, char *out, size_t size);

/*
 * Of the text of a mountinfo: the directory of a group, through the first
 * mount of the tree that shows it. *top is the length of the mount's own
 * path, at which a walk to the parents ends. False if no mount shows the group.
 */
bool cgroup_mounted(const char *text, size_t len, enum cgroup_tree tree, const char *path,
                    char *out, size_t size, size_t *top);

struct cgroup_dir {
    pid_t through; /* the process in whose root path is; 0: in the tool's own */
    char path[PATH_MAX + 64];
    size_t top; /* bytes of path that are the mount's; the rest are groups */
};

/*
 * The directory of the group of a process as it can be opened here: through
 * the tool's own mounts, else through those of the process. False if there is
 * none, or it may not be looked for.
 */
bool cgroup_dir_find(const struct procfs *proc, pid_t pid, enum cgroup_tree tree,
                     struct cgroup_dir *out);

/* Opens a file of it for reading, as group_file_open does: nothing else that is mounted there. */
int cgroup_dir_open(const struct procfs *proc, const struct cgroup_dir *dir, const char *file);

/* Goes to the parent group; false if this is the mount's own directory. */
bool cgroup_dir_parent(struct cgroup_dir *dir);
