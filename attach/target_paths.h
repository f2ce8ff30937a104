/*
 * Paths as a target sees them, from its own root and working directory, and the
 * files that they lead to.
 */
#pragma once

#include "attach/target.h"

#include <sys/stat.h>

/* True if the target sees another file tree than the tool: a container or a chroot. */
bool target_has_own_root(const struct target *target);

/*
 * Returns the path by which the tool can open the file that the target knows as
 * path: the same path, or one below /proc/PID/root, or below /proc/PID/cwd if it is
 * still relative because the working directory could not be read. Writes at most
 * size bytes.
 */
void target_path_from_here(const struct target *target, const char *path, char *out, size_t size);

/*
 * Finds the path by which the target itself opens the file that holder has open as
 * fd; holder is the target or a view of it. The path is verified to lead to that
 * file. Returns 0 or -errno; -ESTALE: the target does not find the file, or not by
 * the name that the kernel shows.
 */
int target_fd_path(const struct target *target, const struct target *holder, int fd, char *out,
                   size_t size);

/*
 * True if the process finds files in the same way as that view of it: same root,
 * working directory and mount namespace. False if that cannot be read.
 */
bool target_sees_same_files(const struct target *target, const struct target *view);

/*
 * Makes path, if it is relative to its working directory, absolute as the target
 * sees it. Returns 0 or -errno.
 */
int target_absolute_path(const struct target *target, const char *path, char *out, size_t size);

/*
 * Returns the stat of the file that the target finds at path, which is absolute in
 * its own root, or relative to its own working directory. No link leads out of that
 * root. Returns 0 or -errno.
 */
int target_stat(const struct target *target, const char *path, struct stat *st);

/*
 * Opens a regular file for reading, by the same rules; refuses FIFOs and devices.
 * Returns a file descriptor or -errno (regular_open).
 */
int target_open_file(const struct target *target, const char *path);

/*
 * Reads the text of the symbolic link `name` in the directory dir, which is
 * absolute as the target sees it. No other link leads out of its root, and this one
 * is not followed. Ends the text with a NUL. Returns its length or -errno.
 */
ssize_t target_readlink(const struct target *target, const char *dir, const char *name, char *out,
                        size_t size);
