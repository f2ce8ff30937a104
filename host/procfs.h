/*
 * Access to /proc.
 *
 * /proc is reached through one file descriptor of the directory, so that recorded
 * files can serve as test input, and so that a procfs of another pid namespace can
 * be used.
 */
#pragma once

#include "base/cursor.h"

#include <stddef.h>
#include <sys/types.h>

struct procfs {
    int dirfd;
};

/* Opens the directory `path`, usually "/proc". Returns 0 or -errno. */
int procfs_open(struct procfs *proc, const char *path);
void procfs_close(struct procfs *proc);

/*
 * Reads a file below the root into buf, at most size - 1 bytes, and ends it with a
 * NUL; fmt formats the file's name. Returns the length or -errno.
 */
__attribute__((format(printf, 4, 5))) ssize_t procfs_read(const struct procfs *proc, char *buf,
                                                          size_t size, const char *fmt, ...);

/* Does the same with an open file descriptor, from its current offset. */
ssize_t procfs_read_fd(int fd, char *buf, size_t size);

/*
 * Reads a whole file of at most limit bytes (-EFBIG if it has more). *out ends with
 * a NUL; the caller frees it. Returns the length or -errno.
 */
__attribute__((format(printf, 4, 5))) ssize_t procfs_slurp(const struct procfs *proc, char **out,
                                                           size_t limit, const char *fmt, ...);

/* Reads the text of a symbolic link and ends it with a NUL. Returns the length or -errno. */
__attribute__((format(printf, 4, 5))) ssize_t procfs_readlink(const struct procfs *proc, char *buf,
                                                              size_t size, const char *fmt, ...);

/* Opens a file below the root with O_CLOEXEC. Returns a file descriptor or -errno. */
__attribute__((format(printf, 3, 4))) int procfs_openf(const struct procfs *proc, int flags,
                                                       const char *fmt, ...);

enum {
    PROC_SELF = -1, /* in place of a pid: the tool itself */
    PROC_NAME_MAX = 16,
};

/* Formats the name of a process's directory below the root: its pid, or "self". Returns out. */
const char *procfs_name(pid_t pid, char out[PROC_NAME_MAX]);

/* The lines of /proc/meminfo. */

/*
 * Parses one line of the text, "MemTotal:       24682540 kB" (fs/proc/meminfo.c),
 * into bytes; key is "MemTotal:". False if there is no such line, or the number
 * exceeds 64 bits.
 */
bool meminfo_parse(struct cursor text, const char *key, uint64_t *bytes);

/* Does the same for the file. */
bool meminfo_read(const struct procfs *proc, const char *key, uint64_t *bytes);
