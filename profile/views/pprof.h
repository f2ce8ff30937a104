/*
 * Writes the profile in the format of pprof: profile.proto
 * (github.com/google/pprof, proto/profile.proto), gzipped, already symbolized.
 */
#pragma once

#include "profile/views/display.h"

#include <stdio.h>

struct pprof_info {
    uint64_t time_ns;            /* of the dump, since 1970; 0: unknown */
    const char *const *comments; /* whole sentences */
    size_t comment_count;
};

enum pprof_result {
    PPROF_DONE,
    PPROF_NO_MEMORY,
    PPROF_NO_ZLIB, /* libz.so.1 is not installed */
};

/* Errors of out are the caller's to check. */
enum pprof_result pprof_write(const struct samples *samples, const struct display *display,
                              const struct pprof_info *info, FILE *out);
