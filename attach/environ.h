/* The environment that a process was started with. */
#pragma once

#include "attach/memory.h"

/*
 * Reads /proc/PID/environ. Only the process's owner and users who can bypass file
 * permissions may open it; for others, reads the same bytes from its memory, at the
 * address in /proc/PID/stat. *out ends with a NUL; the caller frees it. Returns the
 * length or -errno; -EFBIG if it exceeds limit.
 */
ssize_t environ_read(const struct target *target, struct memory *memory, char **out, size_t limit);
