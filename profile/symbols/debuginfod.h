/*
 * Fetches debug files from the servers that $DEBUGINFOD_URLS names, through
 * elfutils' libdebuginfod.
 */
#pragma once

#include "elf/image.h"

/*
 * Fetches the debug file with a build-id. Returns a file descriptor, owned by
 * the caller, or -errno; -ENOSYS: the library is not installed. The caller must
 * verify the file.
 */
int debuginfod_open(const struct build_id *id);
