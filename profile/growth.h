/* What has grown between two profiles, by stack, the largest growth first. */
#pragma once

#include "profile/display.h"

#include <stdio.h>

struct growth_row {
    uint32_t sample; /* in samples->list: a stack of its own */
    int64_t bytes, objects;
    double error;       /* of bytes: two standard deviations of the sampling */
    bool within;        /* the sampling alone may have made it */
    double bytes_per_s; /* 0 if the time is not known */
};

struct growth {
    struct growth_row *rows; /* those that have changed; what has shrunk comes last */
    size_t count;
    int64_t grown, shrunk; /* sums of the rows' bytes: not negative, not positive */
    double error;          /* of both together */
    double seconds;
};

/* Of samples that compare; seconds between the profiles, 0: not known. False: out of memory. */
bool growth_make(struct growth *growth, const struct samples *samples, double seconds);
void growth_free(struct growth *growth);

/* How many rows are to be shown: display->rows at most, and what is large enough to matter. */
size_t growth_shown(const struct growth *growth, const struct display *display);

/* The rows as a table, each with its stack. Errors of out are the caller's to check. */
void growth_write(const struct growth *growth, const struct samples *samples,
                  const struct display *display, FILE *out);

/*
 * Calls of a row's stack, innermost first, inlined ones too: the one at *at,
 * which it moves on; false at the end. Begin with a zero.
 */
struct growth_call {
    uint32_t location, line; /* of the next one */
};
bool growth_next_call(const struct samples *samples, const struct growth_row *row,
                      struct growth_call *at, const struct function **function, unsigned *line);
