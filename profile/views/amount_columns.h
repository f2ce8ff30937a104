/* The columns of numbers before a stack or a call: the same in each view of stacks as text. */
#pragma once

#include "profile/views/display.h"

#include <stdio.h>

struct amount_columns {
    const struct amount *amount, *objects;
    const struct amount *whole; /* of which the share is shown */
    double error;               /* of the growth */
    bool within;                /* the sampling alone may have caused the growth */
};

/* Writes the headings, with that of what follows the numbers. */
void amount_columns_head(const struct samples *samples, const struct display *display,
                         const char *rest, FILE *out);
/* Writes memory, share and objects; in a comparison growth, error, objects and a mark. */
void amount_columns_write(const struct samples *samples, const struct display *display,
                          const struct amount_columns *columns, FILE *out);
/* Returns the width of these columns. */
size_t amount_columns_width(const struct samples *samples);
