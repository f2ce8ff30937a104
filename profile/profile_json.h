/* A profile as one JSON object: what the table shows, and the largest stacks, for programs. */
#pragma once

#include "profile/display.h"

#include <stdio.h>

/*
 * display->value is in bytes or objects, whatever its unit; as many functions
 * and stacks as display->rows and display->least allow. False: out of memory;
 * errors of out are the caller's to check.
 */
bool profile_json_write(const struct samples *samples, const struct display *display, FILE *out);
