/*
 * Paths below a root that somebody else fills: a link in them never leads
 * outside, and nothing but a regular file is ever opened.
 */
#pragma once

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

/*
 * Opens what an O_PATH descriptor names for reading, if it is a regular file
 * that is not empty: what /proc and tracefs show as empty files can block, and
 * change by being read. What is named cannot be exchanged any more. Returns
 * another descriptor, the caller's to close, or -errno; -EINVAL: it is
 * something else.
 */
int regular_open(int named);
