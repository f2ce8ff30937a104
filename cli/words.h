/* Words of the command line that are none of those to choose from, or are no file names. */
#pragma once

#include "run/filename.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Prints the usage error: "unknown unit 'mb': did you mean MiB?", or without a similar word
 * "unknown unit 'x': must be one of auto, B, ...". Returns false, for the caller.
 */
bool words_refuse(const char *kind, const char *wrong, const char *const *words, size_t count);

/* Writes which of the words it is. False: none of them; words_refuse has said so. */
bool words_choose(const char *kind, const char *word, const char *const *words, size_t count,
                  unsigned *out);

/* The flaw in the name of an output file, in words; NULL if there is none. */
const char *filename_flaw_text(enum filename_flaw flaw);
