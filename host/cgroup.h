/*
 * The cgroups of a process: their paths in /proc/PID/cgroup, and their
 * directories below the mounts of cgroup v1 and v2.
 */
#pragma once

#include "base/cursor.h"
#include "host/procfs.h"

#include <limits.h>

/* ---- the text of /proc/PID/cgroup ---- */

/* "hierarchy:controllers:path" (kernel/cgroup/cgroup.c, proc_cgroup_show). */
struct cgroup_line {
    struct cursor hierarchy;   /* "0": v2 */
    struct cursor controllers; /* of v1, separated by commas; of v2 empty */
    struct cursor path;        /* starts with a slash; "/..": above the reader's cgroup namespace */
};

/* Takes the next line off the text; others are skipped. False at the end of the text. */
bool cgroup_next(struct cursor *text, struct cgroup_line *out);

/*
 * Reads the cgroups of a process, PROC_SELF for the tool. *out is the caller's
 * to free; *text is its content. False if it cannot be read.
 */
bool cgroup_read(const struct procfs *proc, pid_t pid, char **out, struct cursor *text);

enum cgroup_tree {
    CGROUP_V1_MEMORY,  /* the v1 hierarchy that has the memory controller */
    CGROUP_V1_FREEZER, /* the one that has the freezer */
    CGROUP_V2,
};

/*
 * The path of the process's group in that tree. False if it is in none, or the
 * path is longer than size - 1 bytes.
 */
bool cgroup_path(struct cursor text, enum cgroup_tree tree, char *out, size_t size);

/* True if the process is in the root group of every hierarchy, as far as the reader can see. */
bool cgroup_at_root(struct cursor text);

/* ---- directories ---- */

enum { CGROUP_DIR_MAX = PATH_MAX + 64 };

/* The directory of a group. It is only a name: cgroup_dir_name says whether it is there. */
struct cgroup_dir {
    pid_t through; /* the process whose root directory path starts at; PROC_SELF: the tool */
    char path[CGROUP_DIR_MAX];
    size_t top; /* length of the mount's part of path; the rest are groups */
};

/*
 * The directory of a group, from the text of a mountinfo: through the first
 * mount of the tree that shows it. Sets path and top. False if no mount shows it.
 */
bool cgroup_dir_mounted(struct cursor mountinfo, enum cgroup_tree tree, const char *path,
                        struct cgroup_dir *out);

/*
 * The directory of the group of a process, as the tool can open it: through
 * the tool's own mounts, else through those of the process. False if there is
 * none, or it may not be searched.
 */
bool cgroup_dir_find(const struct procfs *proc, pid_t pid, enum cgroup_tree tree,
                     struct cgroup_dir *out);

/*
 * The directory of a group below a mount at its usual place, such as
 * "/sys/fs/cgroup". False if the path leads out of the mount, or is too long.
 */
bool cgroup_dir_usual(pid_t through, const char *mount, const char *path, struct cgroup_dir *out);

/* Goes to the parent group; false if this is the mount's own directory. */
bool cgroup_dir_parent(struct cgroup_dir *dir);

/* True if this is the mount's own directory. */
bool cgroup_dir_is_top(const struct cgroup_dir *dir);

/*
 * An O_PATH file descriptor of the directory, for group_file_open; the caller
 * closes it. -errno; -EINVAL: the directory is not on a cgroup file system
 * (group_name).
 */
int cgroup_dir_name(const struct procfs *proc, const struct cgroup_dir *dir);
