/* The fault codes of this layer (base/fault.h). */
#pragma once

#include "elf/faults.h"

enum {
    FAULT_PROFILE = FAULT_FIRST(PROFILE, OTHER), /* a file is no heap profile, or is unreadable */
};

/* The reasons of FAULT_PROFILE: what it is instead. */
enum {
    PROFILE_NONE,
    PROFILE_PPROF,
    PROFILE_GO,
    PROFILE_JAVA,
    PROFILE_CORE,
    PROFILE_PROGRAM,
    PROFILE_PERF,
    PROFILE_MASSIF,
    PROFILE_GZIP,
    PROFILE_ZSTD,
    PROFILE_XZ,
    PROFILE_BZIP2,
    PROFILE_LZ4,
    PROFILE_MIXED, /* profiles of several programs, or with several periods */
};
