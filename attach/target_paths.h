/*
 * Paths as a target sees them, and the files that they lead to: in its own
 * root, from its own working directory.
 */
#pragma once

#include "attach/target.h"

#include <sys/stat.h>

/* True if the target sees another file tree than the tool: a container or a chroot. */
bool target_has_own_root(const struct target *target);

/*
 * The path by which the tool opens what the target calls path: the same, or
 * below /proc/PID/root, or where it is relative still, as its working directory
 * could not be read, below /proc/PID/cwd. Writes at most size bytes.
 */
void target_path_from_here(const struct target *target, const char *path, char *out, size_t size);

/*
 * The path by which the target finds the file that holder, a view of it or
 * itself, has open as fd: no guess, it leads there. Returns 0 or -errno;
 * -ESTALE: it does not find it, or not by the name that the kernel shows.
 */
int target_descriptor_path(const struct target *target, const struct target *holder, int fd,
                           char *out, size_t size);

/*
 * Does the process find files as that view of it does: the same root, working directory and mount
 * namespace? False also where that cannot be read.
 */
bool target_sees_alike(const struct target *target, const struct target *view);

/* path, absolute or relative to its working directory, made absolute as it sees it. 0 or -errno. */
int target_absolute_path(const struct target *target, const char *path, char *out, size_t size);

/*
 * What the target would find at path, which is relative to its own working
 * directory or absolute in its own root; no link leads the tool outside of
 * that root. Returns 0 or -errno.
 */
int target_stat(const struct target *target, const char *path, struct stat *st);

/*
 * Opens a regular file for reading, under the same rules; a FIFO or a device
 * that stands there is not opened. Returns a descriptor or -errno (regular_open).
 */
int target_open_file(const struct target *target, const char *path);

/*
 * The text of the symbolic link `name` in the directory that the target calls
 * dir, which is absolute; no other link leads outside of its root, and this one
 * is not followed. NUL-terminated. Returns its length or -errno.
 */
ssize_t target_readlink(const struct target *target, const char *dir, const char *name, char *out,
                        size_t size);
