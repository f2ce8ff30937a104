/* Options that contradict each other, or that a verb lacks. */
#pragma once

#include "cli/options.h"

/* Returns the first inconsistency, as the text of a usage error; NULL: there is none. */
const char *options_inconsistency(const struct options *options, unsigned takes);

/*
 * Returns why the options do not work with several processes, as the text of a
 * usage error; NULL: they do.
 */
const char *options_wrong_with_several(const struct options *options, unsigned takes);
