/*
 * The profiles that `watch` has written to a directory: their names, and how many are kept.
 *
 * Everybody chooses the names of one's processes, so the file of another user's process also has
 * that user in its name, which nobody chooses: it never takes the place of a file of yours.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum { KEEP_EXTENSION_SIZE = 32 };

/* Before the extension: the process ended, and this is the last that was read of it. */
#define KEEP_CUT_SHORT "-cut-short"

/*
 * Formats the extension of a file of a process with this real uid: ".watch.heap", or
 * ".uid113.watch.heap" if it is not the tool's user. Returns out.
 */
const char *keep_extension(uid_t uid, char out[KEEP_EXTENSION_SIZE]);

/* Length of NAME in "NAME-PID-TIME-RSS.watch.heap"; 0 if it is not such a name. */
size_t keep_name(const char *file);

/*
 * Removes the oldest profiles with the same process name and user as newest, a file of
 * the directory, until `keep` are left. Other files are not touched. Returns
 * how many were removed.
 */
unsigned keep_newest(const char *directory, const char *newest, unsigned keep);
