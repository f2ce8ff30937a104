/* The source of functions, with what each line allocates. */
#pragma once

#include "profile/symbols/symbols.h"
#include "profile/views/display.h"

#include <stdio.h>

/*
 * Writes the source of the functions whose names match display->list, the
 * largest first. Files are found by source_file_read. Where there is no file, the
 * lines that allocate are listed with their numbers. False: out of memory; errors
 * of out are the caller's to check.
 */
bool listing_write(const struct samples *samples, const struct display *display,
                   const struct symbols_options *options, FILE *out);
