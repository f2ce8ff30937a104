/* Words of the command line that are none of those to choose from. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Prints the usage error: "unknown unit 'mb': did you mean MiB?", or without a similar word
 * "unknown unit 'x': must be one of auto, B, ...". Returns false, for the caller.
 */
bool words_refuse(const char *kind, const char *wrong, const char *const *words, size_t count);
