/* Numbers over time as a row of bars, one column each: "▁▂▃▅▇", or "_.-=#" in ASCII. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPARKLINE_COLUMNS = 40,
    SPARKLINE_TEXT = 3 * SPARKLINE_COLUMNS + 1, /* three bytes of UTF-8 a bar */
};

/*
 * Draws values, oldest first, in as many columns as there are values, at most `columns` (and
 * SPARKLINE_COLUMNS): then each bar is the mean of several. The lowest bar is the least value,
 * the highest the largest. A range below 2 % of the largest value fills only that part of the
 * height, so that noise looks flat. A value of 0 is not known: a space.
 */
const char *sparkline(const uint64_t *values, size_t count, size_t columns, bool utf8,
                      char out[SPARKLINE_TEXT]);
