/*
 * Writes a profile as one JSON object for programs: the functions of the table,
 * and the largest stacks.
 */
#pragma once

#include "profile/views/display.h"

#include <stdio.h>

/*
 * display->value is written in bytes or objects, whatever its unit;
 * display->rows and display->least limit the number of functions and stacks.
 * False: out of memory; errors of out are the caller's to check.
 */
bool profile_json_write(const struct samples *samples, const struct display *display, FILE *out);
