/*
 * The profiles that `watch` has written to a directory: their names, and how many are kept.
 *
 * Everybody chooses the names of one's processes, so a container and another user are added to
 * them, which nobody chooses: their files never take the place of yours.
 */
#pragma once

#include <stddef.h>

#define KEEP_EXTENSION ".watch.heap"

/* Before the extension: the process ended, and this is the last that was read of it. */
#define KEEP_CUT_SHORT "-cut-short"

/* Length of NAME in "NAME-PID-TIME-RSS.watch.heap"; 0 if it is not such a name. */
size_t keep_name(const char *file);

/*
 * Removes the oldest profiles with the same process name as newest, a file of the directory,
 * until `keep` are left. Other files are not touched. Returns how many were removed.
 */
unsigned keep_newest(const char *directory, const char *newest, unsigned keep);
