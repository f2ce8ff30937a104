/*
 * Paths below a root that somebody else fills: a link in them never leads
 * outside, and nothing but a regular file is ever opened.
 */
#pragma once

#include "host/procfs.h"

#include <sys/stat.h>

enum inroot_links {
    INROOT_FOLLOW,
    INROOT_NO_LINKS, /* -ELOOP: what maps calls a file has no link in it (d_path) */
};

/*
 * An O_PATH descriptor of what path names, from root on, with or without its
 * first slash; links are resolved inside root, the last part too. By
 * openat2(2), RESOLVE_IN_ROOT; where a kernel older than 5.6 or a seccomp
 * filter refuses that, part by part with the same result. Naming opens
 * nothing: no FIFO waits and no device acts. The caller closes it. Returns
 * -errno on failure; -ENAMETOOLONG also for more than 128 directories.
 */
int inroot_name(int root, const char *path, enum inroot_links links);
/* The same without openat2(2). */
int inroot_walk(int root, const char *path, enum inroot_links links);

/* Asked before a link is followed: its directory, its name there, and what it is. 0 or -errno. */
struct inroot_guard {
    int (*may_follow)(void *ctx, int dir, const char *name, const struct stat *link);
    void *ctx;
};

/* The same, links followed, each after it was asked for. */
int inroot_walk_guarded(int root, const char *path, const struct inroot_guard *guard);

/*
 * Opens what an O_PATH descriptor names for reading, if it is a regular file
 * that is not empty: what /proc and tracefs show as empty files can block, and
 * change by being read. What is named cannot be exchanged any more. Returns
 * another descriptor, the caller's to close, or -errno; -EINVAL: it is
 * something else.
 */
int regular_open(int named);

/*
 * Opens what an O_PATH descriptor, or any other, names once more; the caller
 * has seen what it is. O_CLOEXEC, O_NONBLOCK and O_NOCTTY are added to flags.
 * Returns another descriptor, the caller's to close, or -errno.
 */
int named_open(int named, int flags);

/*
 * The directory of a control group, path from root on as for inroot_name: an
 * O_PATH descriptor of what lies on the file system of the groups (cgroup or
 * cgroup2, fstatfs(2)), the caller's to close. -EINVAL: it lies elsewhere.
 * Where proc is a recording, that file system is the one of the recording.
 */
int group_name(const struct procfs *proc, int root, const char *path);

/*
 * Opens a file of such a directory for reading. The files of a group are
 * regular and say that they are empty, so regular_open refuses them. -EXDEV or
 * -EINVAL: another file is mounted there. Returns a descriptor, the caller's to
 * close, or -errno.
 */
int group_file_open(const struct procfs *proc, int group, const char *file);

/* Reads such a file as procfs_read does. */
ssize_t group_file_read(const struct procfs *proc, int group, const char *file, char *buf,
                        size_t size);
