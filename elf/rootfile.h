/*
 * Opening a file by its path in the root of a target, which chooses what
 * stands there: no link leads outside, and nothing but a regular file is ever
 * opened (a FIFO would block, a device may act on being opened).
 */
#pragma once

#include "attach/target.h"
#include "host/inroot.h"

/* The root of the target, or the tool's own (target NULL), as an O_PATH descriptor, or -errno. */
int root_open(const struct target *target);

/*
 * Opens a regular file for reading. path is taken from root on, with or
 * without its first slash; links in it are resolved inside root (inroot_name).
 * Returns as regular_open.
 */
int root_open_file(int root, const char *path, enum inroot_links links);
