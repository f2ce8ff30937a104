/* The stacks of a profile as an indented tree of calls, the largest first. */
#pragma once

#include "profile/views/display.h"

#include <stdio.h>

/* Writes the tree from the root. False: out of memory; errors of out are the caller's to check. */
bool tree_write(const struct samples *samples, const struct display *display, FILE *out);
