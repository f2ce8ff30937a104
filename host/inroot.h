/*
 * Opens paths below a root that another party fills: a link in them never leads
 * outside, and only regular files are ever opened.
 */
#pragma once

#include "host/procfs.h"

#include <sys/stat.h>

enum inroot_links {
    INROOT_FOLLOW,
    INROOT_NO_LINKS, /* -ELOOP at a link: the paths in maps have none (d_path) */
};

/*
 * Returns an O_PATH file descriptor of what path names; the path starts at root,
 * with or without a leading slash. Links are resolved inside root, the last
 * component's too. Uses openat2(2) with RESOLVE_IN_ROOT. If the kernel is older
 * than 5.6 or a seccomp filter refuses openat2, resolves the components one by one
 * with the same result. Naming opens nothing: no FIFO blocks and no device acts.
 * The caller closes it. Returns -errno on failure; -ENAMETOOLONG also for more than
 * 128 directories.
 */
int inroot_name(int root, const char *path, enum inroot_links links);
/* Does the same without openat2(2). */
int inroot_walk(int root, const char *path, enum inroot_links links);

/*
 * Called before a link is followed, with its directory, its name there and its
 * stat. Returns 0 or -errno.
 */
struct inroot_guard {
    int (*may_follow)(void *ctx, int dir, const char *name, const struct stat *link);
    void *ctx;
};

/* Does the same, follows links, and asks the guard before each. */
int inroot_walk_guarded(int root, const char *path, const struct inroot_guard *guard);

/*
 * Opens a regular file for reading, by an O_PATH file descriptor of it. Refuses
 * empty files: those in /proc and tracefs look empty, can block, and can change by
 * being read. A named file cannot be exchanged any more. Returns another file
 * descriptor, which the caller closes, or -errno; -EINVAL: it is not such a file.
 */
int regular_open(int named);

/*
 * Opens a file again by any file descriptor of it, such as an O_PATH one; the
 * caller has checked its type. Adds O_CLOEXEC, O_NONBLOCK and O_NOCTTY to flags.
 * Returns another file descriptor, which the caller closes, or -errno.
 */
int named_open(int named, int flags);

/*
 * Returns an O_PATH file descriptor of a cgroup's directory, or -errno; path starts
 * at root, as for inroot_name. The caller closes it. -EINVAL: the directory is not
 * on a cgroup or cgroup2 file system (fstatfs(2)). If proc is a recording, the file
 * system of the recording counts as one.
 */
int group_name(const struct procfs *proc, int root, const char *path);

/*
 * Opens a file of such a directory for reading. A cgroup's files are regular and
 * claim to be empty, so regular_open refuses them. Returns a file descriptor, which
 * the caller closes, or -errno; -EXDEV or -EINVAL: another file is mounted there.
 */
int group_file_open(const struct procfs *proc, int group, const char *file);

/* Reads such a file like procfs_read. */
ssize_t group_file_read(const struct procfs *proc, int group, const char *file, char *buf,
                        size_t size);
