/*
 * Writes a flame graph as one self-contained HTML file: the data as JSON in a
 * fixed page, profile/views/flame.html, which draws them.
 */
#pragma once

#include "profile/views/stacks.h"

/* profile/views/flame.html, up to the data. */
extern const unsigned char flame_page[];
extern const size_t flame_page_size;

/*
 * Calls with less than display->least of the total are joined in one box of
 * their caller; if the file would become too large, larger ones too. False: out
 * of memory; errors of out are the caller's to check.
 */
bool flame_write(const struct samples *samples, const struct display *display, FILE *out);
