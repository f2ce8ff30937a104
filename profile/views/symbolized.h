/*
 * Writes jemalloc's own text preceded by the names, in the format that jeprof
 * --raw writes and jeprof reads.
 */
#pragma once

#include "profile/samples.h"

#include <stdio.h>

/*
 * text: what profile was parsed from; locations has those of the profile from
 * first_location on. jeprof looks up the first address of a stack as it is, and
 * all others minus one (FixCallerAddresses), so both get names.
 */
void symbolized_write(const struct locations *locations, uint32_t first_location,
                      const struct heap_profile *profile, const char *text, size_t len, FILE *out);
