/* Debug files from the servers that $DEBUGINFOD_URLS names, through elfutils' libdebuginfod. */
#pragma once

#include "elf/image.h"

/*
 * The debug file of a build-id: a descriptor, the caller's to close, or
 * -errno. -ENOSYS: the library is not installed. The caller verifies the file.
 */
int debuginfod_open(const struct build_id *id);
