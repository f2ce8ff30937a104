/* Options that contradict each other, or that a verb lacks. */
#pragma once

#include "cli/options.h"

enum { OPTIONS_FIX = 4200 };

/* Returns the first inconsistency, as the text of a usage error; NULL: there is none. */
const char *options_inconsistency(const struct options *options, unsigned takes);

/*
 * Returns why the options do not work with several processes, as the text of a
 * usage error; NULL: they do.
 */
const char *options_wrong_with_several(const struct options *options, unsigned takes);

/*
 * Writes the fix of a text that one of the two has returned, for the verb of that name. Returns
 * out.
 */
const char *options_fix(const struct options *options, const char *wrong, const char *verb,
                        char *out, size_t size);
