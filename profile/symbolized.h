/* jemalloc's own text with the names in front of it, as jeprof --raw writes it and jeprof reads it.
 */
#pragma once

#include "profile/samples.h"

#include <stdio.h>

/*
 * text is what profile was parsed from; locations has those of the profile
 * from first_location on. jeprof takes the first address of a stack as it is,
 * and one less of all others (FixCallerAddresses), so both have names.
 */
void symbolized_write(const struct locations *locations, uint32_t first_location,
                      const struct heap_profile *profile, const char *text, size_t len, FILE *out);
