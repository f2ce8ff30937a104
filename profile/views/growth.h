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

/*
 * Writes the rows as a table, each with its stack: a line, or one for each call. Errors of out are
 * the caller's to check.
 */
void growth_write(const struct growth *growth, const struct samples *samples,
                  const struct display *display, bool calls, FILE *out);

/* The growth of a process in one sentence. */

enum growth_verdict {
    GROWTH_NONE,    /* no stack has grown by more than the sampling may have caused */
    GROWTH_STOPPED, /* one has, but grows no longer */
    GROWTH_ONE_OF,  /* one of several grows; which of them is open */
    GROWTH_GOES_ON, /* one has, and still grows */
};

struct growth_answer {
    enum growth_verdict verdict;
    const struct growth_row *row; /* with the most growth of that verdict; NULL: none */
    size_t more;                  /* further rows of that verdict */
    double unseen;                /* bytes: a stack may have grown by less without being seen */
};

/* Chooses the answer from rows that growth_make has made of the samples. */
void growth_answer_choose(struct growth_answer *answer, const struct growth *growth,
                          const struct samples *samples);
/*
 * Writes it as text, truncated to size - 1 bytes. Names are those of the target:
 * they may contain any bytes. Returns out.
 */
const char *growth_answer_text(const struct growth_answer *answer, const struct growth *growth,
                               const struct samples *samples, const struct display *display,
                               char *out, size_t size);
/*
 * Returns a few words on what the growth of a comparison rests on; NULL: it needs none. For
 * programs: growth_evidence_name.
 */
const char *growth_evidence_text(const struct samples *samples);
const char *growth_evidence_name(enum trend_evidence evidence);
