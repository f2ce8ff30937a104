/* The functions of a profile with what they hold, largest first, as a table. */
#pragma once

#include "profile/display.h"

#include <stdio.h>

struct top_row {
    uint32_t group;        /* in the locations' groups: a function name */
    struct amount flat;    /* allocated by the function itself */
    struct amount whole;   /* and by all that it calls; a recursion counts once */
    struct amount objects; /* of flat */
};

struct top {
    struct top_row *rows; /* one a group, the largest first */
    size_t count;
    struct amount total;
    struct amount objects;
};

/* False: out of memory. The caller frees rows. */
bool top_make(struct top *top, const struct samples *samples, const struct display *display);

/*
 * Is an amount, such as a row's whole, large enough to be listed? Of a
 * comparison its growth counts, as a part of the base.
 */
bool top_shows(const struct top *top, const struct samples *samples, const struct display *display,
               const struct amount *amount);

/* The table as text. False: out of memory; errors of out are the caller's to check. */
bool top_write(const struct samples *samples, const struct display *display, FILE *out);
