/* The stacks that matter most, in one screen. */
#pragma once

#include "profile/views/display.h"

#include <stdio.h>

/*
 * Writes the three largest stacks, each with its most telling calls; nothing if
 * there are none. whole: what the shares are of. False: out of memory; errors of out are
 * the caller's to check.
 */
bool summary_write(const struct samples *samples, const struct display *display,
                   const struct amount *whole, FILE *out);
