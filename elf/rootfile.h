/*
 * Opens files by their paths in the root of a target. The target controls these
 * paths, so no link can lead outside its root, and only regular files are
 * opened (a FIFO would block; opening a device may have effects).
 */
#pragma once

#include "attach/target.h"
#include "host/inroot.h"

/*
 * Opens the root of the target (target->kept_root, if there is one), or the tool's own (target
 * NULL, or one of a core file without a root). Returns an O_PATH descriptor or -errno.
 */
int root_open(const struct target *target);

/*
 * Opens a regular file for reading. path is relative to root, with or without a
 * leading slash; links in it are resolved inside root (inroot_name). Returns
 * the same as regular_open.
 */
int root_open_file(int root, const char *path, enum inroot_links links);
