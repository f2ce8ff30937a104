/* The growth from one profile to another by stack: first what grows, the most first. */
#pragma once

#include "profile/views/display.h"

#include <stdio.h>

struct growth_row {
    uint32_t sample; /* in samples->list: a separate stack */
    int64_t bytes, objects;
    struct trend trend; /* of bytes; its interval is one of all rows together */
    double error;       /* half of the trend's interval */
    bool within;        /* the sampling alone may have caused it */
    double bytes_per_s; /* 0 if the time is unknown */
};

struct growth {
    /* Stacks that have changed: those that grow first, then by trend_verdict, then by bytes. */
    struct growth_row *rows;
    size_t count;
    int64_t grown, shrunk; /* sums of the rows' bytes: grown >= 0, shrunk <= 0 */
    double error;          /* of grown and shrunk together */
    double seconds;
};

/*
 * Makes the rows from samples of a comparison. seconds: between the profiles;
 * 0: unknown. False: out of memory.
 */
bool growth_make(struct growth *growth, const struct samples *samples, double seconds);
void growth_free(struct growth *growth);

/*
 * Returns the number of rows to show: at most display->rows, and only rows that
 * are large enough.
 */
size_t growth_shown(const struct growth *growth, const struct display *display);

/* Writes the rows as a table, each with its stack. Errors of out are the caller's to check. */
void growth_write(const struct growth *growth, const struct samples *samples,
                  const struct display *display, FILE *out);
