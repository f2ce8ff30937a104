/* The environment that a process was started with. */
#pragma once

#include "attach/memory.h"

/*
 * Reads /proc/PID/environ, which is shown to its owner and to who may pass over
 * file permissions alone; else the same bytes out of its memory, where
 * /proc/PID/stat says that they are. *out is the caller's to free and ends with
 * a NUL. Returns the length or -errno; -EFBIG beyond limit.
 */
ssize_t environ_read(const struct target *target, struct memory *memory, char **out, size_t limit);
