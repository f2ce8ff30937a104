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
