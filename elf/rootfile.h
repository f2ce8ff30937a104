/*
 * Opening a file by its path in the root of a target, which chooses what
 * stands there: no link leads outside, and nothing but a regular file is ever
 * opened (a FIFO would block, a device may act on being opened).
 */
#pragma once

#include "attach/target.h"

/* The root of the target, or the tool's own (target NULL), as an O_PATH descriptor, or -errno. */
int root_open(const struct target *target);

/*
 * Opens what an O_PATH descriptor names for reading, if it is a regular file:
 * naming opens nothing yet, and what is named cannot be exchanged any more.
 * Returns another descriptor, the caller's to close, or -errno; -EINVAL: it is
 * something else.
 */
int regular_open(int named);

/*
 * Opens a regular file for reading. path is taken from root on, with or
 * without its first slash; links in it are resolved inside root (openat2(2),
 * RESOLVE_IN_ROOT). Returns as regular_open; -ENOSYS: the kernel is older than
 * 5.6, and root is not the tool's own.
 */
int root_open_file(int root, const char *path);
