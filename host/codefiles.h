/*
 * The executable files of a process, quickly: PROCMAP_QUERY (Linux 6.11) returns
 * one mapping after the other and skips those that are not code of a file.
 * /proc/PID/maps takes longer, because the kernel spends most of the time on
 * writing the path of each mapping.
 */
#pragma once

#include "base/util.h"
#include "host/procfs.h"

enum { CODE_FILES_MAX = 256, CODE_HEAD = 256 };

/* One executable mapping of a file, with its first bytes. */
struct code_file {
    uint64_t size;   /* bytes */
    uint64_t offset; /* bytes into the file */
    uint64_t inode;
    unsigned dev_major, dev_minor;
    unsigned char head[CODE_HEAD];
};

/*
 * Fills list, which has capacity for CODE_FILES_MAX entries. Returns their number,
 * 0 if the process has no such mapping, or -errno: -ENOTTY if the kernel does not
 * support the request, -E2BIG if there are more, -EACCES or -EPERM if it is not
 * permitted, -ESRCH if the process has no memory.
 */
ssize_t code_files(const struct procfs *proc, pid_t pid, struct code_file *list);
