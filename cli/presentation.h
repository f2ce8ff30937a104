/* How a heap profile is shown, according to the options. */
#pragma once

#include "cli/options.h"
#include "run/present.h"

/*
 * Fills the presentation, before any process is touched; false after a usage
 * error is printed. fallback is the format if neither -f nor the extension of
 * the output names one. Call presentation_free even after a failure.
 */
bool presentation_init(struct presentation *presentation, const struct options *options,
                       enum format fallback);

/*
 * Parses the whole number of an option, 0 standing for all; false after a usage error is
 * printed. things: what is counted, in the plural.
 */
bool presentation_number(const char *option, const char *text, const char *things, size_t *out);
