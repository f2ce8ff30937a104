/*
 * The executable files of a process, quickly: PROCMAP_QUERY (Linux 6.11) asks
 * for one mapping after the other and leaves out all that is no code of a
 * file. /proc/PID/maps writes the path of each mapping instead, which takes
 * the kernel most of the time.
 */
#pragma once

#include "base/util.h"
#include "host/procfs.h"

#include <stdbool.h>

enum { CODE_FILES_MAX = 256, CODE_HEAD = 256 };

/* One executable mapping of a file, with the first bytes that lie there. */
struct code_file {
    uint64_t size;   /* bytes */
    uint64_t offset; /* bytes into the file */
    uint64_t inode;
    unsigned dev_major, dev_minor;
    unsigned char head[CODE_HEAD];
};

/*
 * Fills list, which has room for CODE_FILES_MAX, and returns their number, or
 * -errno: -ENOTTY, the kernel cannot; -E2BIG, there are more; -EACCES, -EPERM,
 * not permitted; -ESRCH, the process has no memory. 0: it has no such mapping.
 */
ssize_t code_files(const struct procfs *proc, pid_t pid, struct code_file *list);
