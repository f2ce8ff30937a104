/*
 * The functions of a profile with their amounts, largest first, as a table; in a
 * comparison those first whose growth is beyond the error.
 */
#pragma once

#include "profile/views/call_keys.h"
#include "profile/views/display.h"

#include <stdio.h>

struct top_row {
    uint32_t group;        /* index in the locations' groups: a function name */
    uint32_t function;     /* with display->lines: the function, and the line in its file */
    unsigned line;         /* with KEY_LINE */
    struct amount flat;    /* allocated by the function itself */
    struct amount whole;   /* by the function and all that it calls; a recursion counts once */
    struct amount objects; /* of flat */
    bool within;           /* in a comparison: the growth of whole is within its error */
};

struct top {
    struct top_row *rows; /* one per function name or per line, the largest first */
    size_t count;
    struct amount total;
    struct amount objects;
};

/* False: out of memory. The caller frees rows. */
bool top_make(struct top *top, const struct samples *samples, const struct display *display);

/*
 * True if an amount, such as a row's whole, is large enough to be listed. In a
 * comparison its growth counts, as a share of the base.
 */
bool top_shows(const struct top *top, const struct samples *samples, const struct display *display,
               const struct amount *amount);

/* True if a row of a function is shown: not one that allocates nothing itself, in their order. */
bool top_shows_row(const struct top *top, const struct samples *samples,
                   const struct display *display, const struct top_row *row);
/* Returns the number of samples of which the displayed value is estimated. */
uint64_t top_sampled(const struct samples *samples, const struct display *display);
/* Writes the title, the sums of all samples, and their error. */
void top_head_write(const struct samples *samples, const struct display *display,
                    const struct amount *total, const struct amount *objects, FILE *out);

enum { TOP_FILTERED_SIZE = 96 };
/* Formats which part of the whole profile a filter leaves; "": all of it. Returns out. */
const char *top_filtered_text(const struct samples *samples, const struct display *display,
                              char out[TOP_FILTERED_SIZE]);
/* Writes the table as text. False: out of memory; errors of out are the caller's to check. */
bool top_write(const struct samples *samples, const struct display *display, FILE *out);
