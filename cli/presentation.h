/* What the options say of how a heap profile is shown. */
#pragma once

#include "cli/options.h"
#include "run/present.h"

/*
 * Fills the presentation before anything is touched; false after a message
 * about what is wrong. fallback is the format if neither -f nor the name of the
 * output says one. presentation_free in each case.
 */
bool presentation_init(struct presentation *presentation, const struct options *options,
                       enum format fallback);
