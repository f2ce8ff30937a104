/*
 * The cgroups of a process: their paths in /proc/PID/cgroup, their directories below the mounts
 * of cgroup v1 and v2 (/proc/PID/mountinfo), and whether they are frozen.
 */
#pragma once

#include "base/cursor.h"
#include "host/procfs.h"

#include <limits.h>
#include <stdbool.h>

/* ---- the text of /proc/PID/cgroup ---- */

/* "hierarchy:controllers:path" (kernel/cgroup/cgroup.c, proc_cgroup_show). */
struct cgroup_line {
    struct cursor hierarchy;   /* "0": cgroup v2 */
    struct cursor controllers; /* v1: separated by commas; v2: empty */
    struct cursor path;        /* starts with a slash; "/..": above the reader's cgroup namespace */
};

/* Takes the next line off the text; others are skipped. False at the end of the text. */
bool cgroup_next(struct cursor *text, struct cgroup_line *out);

/*
 * Reads the cgroups of a process; PROC_SELF: of the tool. *out holds the text, the
 * caller frees it; *text covers it. False if it cannot be read.
 */
bool cgroup_read(const struct procfs *proc, pid_t pid, char **out, struct cursor *text);

enum cgroup_tree {
    CGROUP_V1_MEMORY,  /* the cgroup v1 hierarchy with the memory controller */
    CGROUP_V1_FREEZER, /* the cgroup v1 hierarchy with the freezer */
    CGROUP_V1_CPU,     /* the cgroup v1 hierarchy with the cpu controller */
    CGROUP_V2,
};

/*
 * Copies the path of the process's cgroup in that tree. False if the process is in
 * none, or the path is longer than size - 1 bytes.
 */
bool cgroup_path(struct cursor text, enum cgroup_tree tree, char *out, size_t size);

/* True if the process is in the root cgroup of every hierarchy, as far as the reader can see. */
bool cgroup_at_root(struct cursor text);

/* ---- directories ---- */

enum { CGROUP_DIR_MAX = PATH_MAX + 64 };

/* The directory of a cgroup. This is only a name: cgroup_dir_name finds out whether it exists. */
struct cgroup_dir {
    pid_t through; /* path starts at the root directory of this process; PROC_SELF: of the tool */
    char path[CGROUP_DIR_MAX];
    size_t top; /* length of the mount point at the start of path; cgroups follow it */
};

/*
 * Finds the directory of a cgroup in the text of a mountinfo: below the first mount
 * of the tree that shows it. Sets path and top. False if no mount shows it.
 */
bool cgroup_dir_mounted(struct cursor mountinfo, enum cgroup_tree tree, const char *path,
                        struct cgroup_dir *out);

/*
 * Finds the directory of a process's cgroup such that the tool can open it: below a
 * mount of the tool's own, else below one of the process's. False if there is none,
 * or the tool may not search it.
 */
bool cgroup_dir_find(const struct procfs *proc, pid_t pid, enum cgroup_tree tree,
                     struct cgroup_dir *out);

/*
 * Names the directory of a cgroup below a mount at its usual place, such as
 * "/sys/fs/cgroup". False if the path leads out of the mount, or is too long.
 */
bool cgroup_dir_usual(pid_t through, const char *mount, const char *path, struct cgroup_dir *out);

/* Goes to the parent cgroup; false at the mount's top directory. */
bool cgroup_dir_parent(struct cgroup_dir *dir);

/* True at the mount's top directory. */
bool cgroup_dir_is_top(const struct cgroup_dir *dir);

/*
 * Returns an O_PATH file descriptor of the directory, for group_file_open, or
 * -errno; the caller closes it. -EINVAL: the directory is not on a cgroup file
 * system (group_name).
 */
int cgroup_dir_name(const struct procfs *proc, const struct cgroup_dir *dir);

/* ---- the entries of /proc/PID/mountinfo ---- */

/* Parts of a line, still escaped: see mountinfo_unescape. */
struct mount_entry {
    struct cursor root;    /* the directory within the file system that is mounted */
    struct cursor point;   /* the mount point, from the root of the process */
    struct cursor type;    /* "ext4", "cgroup2" */
    struct cursor options; /* of the file system, separated by commas; for cgroup v1 the controllers
                              are among them */
};

/*
 * Takes the next entry off the text; skips lines that are not entries. False at the
 * end of the text.
 */
bool mountinfo_next(struct cursor *text, struct mount_entry *out);

/*
 * Copies a part and undoes its escapes: the kernel writes blank, tab, newline,
 * backslash and '#' as \ooo (fs/proc_namespace.c, mangle). False if size is too
 * small, or the part has a NUL.
 */
bool mountinfo_unescape(struct cursor part, char *out, size_t size);

/*
 * Reads the mountinfo of a process; PROC_SELF: of the tool. *out holds the text,
 * the caller frees it; *text covers it. False if it cannot be read or is larger
 * than 16 MiB.
 */
bool mountinfo_read(const struct procfs *proc, pid_t pid, char **out, struct cursor *text);

/* ---- freezers: whether a process is frozen with its cgroup (docker pause, systemctl freeze) ----
 */

enum { FREEZER_PATH_MAX = 512 };

/* What froze a process. */
enum freezer {
    FREEZER_NONE,   /* nothing: it is not frozen */
    FREEZER_V2,     /* a cgroup of cgroup v2 */
    FREEZER_V1,     /* the freezer controller of cgroup v1 */
    FREEZER_UNSEEN, /* a cgroup that the tool does not see */
};

/*
 * Returns FREEZER_V1 or FREEZER_V2 if the process's cgroup is frozen, and the
 * cgroup's directory, from the tool's own root, in path. Looks at the usual places:
 * the v1 freezer hierarchy, and cgroup v2 alone or beside v1. Anything not found
 * there counts as not frozen.
 */
enum freezer freezer_of_group(const struct procfs *proc, pid_t pid, char *path, size_t size);

/*
 * True if the state of each thread shows that only a freezer can have stopped it.
 * For a tool that does not see the hierarchies, such as one in another container.
 * Looks only at the first thread of a process that runs.
 */
bool freezer_of_threads(const struct procfs *proc, pid_t pid);
