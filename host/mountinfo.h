/* The entries of /proc/PID/mountinfo. */
#pragma once

#include "base/cursor.h"
#include "host/procfs.h"

/* Parts of a line, as the kernel writes them: see mountinfo_unescape. */
struct mount_entry {
    struct cursor root;    /* the directory of the file system that is mounted */
    struct cursor point;   /* where it is mounted, from the root of the reader's view */
    struct cursor type;    /* "ext4", "cgroup2" */
    struct cursor options; /* of the file system, separated by commas; of cgroup the controllers */
};

/*
 * Takes the next entry off the text. Lines that are not entries are skipped.
 * False at the end of the text.
 */
bool mountinfo_next(struct cursor *text, struct mount_entry *out);

/*
 * Copies a part without its escapes: the kernel writes blank, tab, newline,
 * backslash and '#' as \ooo (fs/proc_namespace.c, mangle). False if size is too
 * small, or the part has a NUL.
 */
bool mountinfo_unescape(struct cursor part, char *out, size_t size);

/*
 * Reads the mountinfo of a process, PROC_SELF for the tool. *out is the caller's to
 * free; *text is its content. False if it cannot be read or is larger than 16 MiB.
 */
bool mountinfo_read(const struct procfs *proc, pid_t pid, char **out, struct cursor *text);
