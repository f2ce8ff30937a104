/* The entries of /proc/PID/mountinfo. */
#pragma once

#include "base/cursor.h"
#include "host/procfs.h"

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
