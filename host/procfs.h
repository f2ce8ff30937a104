/*
 * The target as /proc shows it.
 *
 * /proc is reached through one directory descriptor, so that recorded files
 * serve as test input and so that a mounted procfs of another pid namespace
 * can be named.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct procfs {
    int dirfd;
};

/* Opens the directory path (usually "/proc"). Returns 0 or -errno. */
int procfs_open(struct procfs *proc, const char *path);
void procfs_close(struct procfs *proc);

/*
 * Reads a file whose name is fmt, relative to the root, into buf, at most
 * size - 1 bytes, and ends it with a NUL. Returns the length or -errno.
 */
__attribute__((format(printf, 4, 5))) ssize_t procfs_read(const struct procfs *proc, char *buf,
                                                          size_t size, const char *fmt, ...);

/* The same of an open descriptor, from where it stands. */
ssize_t procfs_read_fd(int fd, char *buf, size_t size);

/*
 * Reads a whole file, at most limit bytes (-EFBIG beyond). *out is the
 * caller's to free and ends with a NUL. Returns the length or -errno.
 */
__attribute__((format(printf, 4, 5))) ssize_t procfs_slurp(const struct procfs *proc, char **out,
                                                           size_t limit, const char *fmt, ...);

/* The text of a symbolic link, NUL-terminated. Returns the length or -errno. */
__attribute__((format(printf, 4, 5))) ssize_t procfs_readlink(const struct procfs *proc, char *buf,
                                                              size_t size, const char *fmt, ...);

/* Opens a file below the root with O_CLOEXEC. Returns a descriptor or -errno. */
__attribute__((format(printf, 3, 4))) int procfs_openf(const struct procfs *proc, int flags,
                                                       const char *fmt, ...);

enum {
    PROC_SELF = -1, /* in place of a pid: the tool itself */
    PROC_NAME_MAX = 16,
};

/* The name of the directory of a process below the root: its pid, or "self". Returns out. */
const char *procfs_name(pid_t pid, char out[PROC_NAME_MAX]);
