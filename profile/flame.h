/*
 * A flame graph as one HTML file that needs nothing else: the data as JSON in
 * front of a fixed page, profile/flame.html, which draws them.
 */
#pragma once

#include "profile/stacks.h"

/* profile/flame.html, up to the data. */
extern const unsigned char flame_page[];
extern const size_t flame_page_size;

/*
 * Calls that hold less than display->least of the total are not written one by
 * one but as one box of their caller; where the file would become too large,
 * larger ones too. False: out of memory; errors of out are the caller's to check.
 */
bool flame_write(const struct samples *samples, const struct display *display, FILE *out);
