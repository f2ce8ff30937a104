/* What top shows, as lines of text: from the page alone, for any size of a terminal. */
#pragma once

#include "run/top_refresh.h"

/* The model, and what is said of it. */
struct top_page {
    const struct top_model *model;
    const char *clock;      /* the time of day */
    enum sites_order order; /* of the rows */
    const char *why, *next; /* without a profile: the one next step, a command or a sentence */
    const char *missed;     /* why the newest refresh brought nothing; NULL: it did */
};

struct top_size {
    size_t columns, lines; /* 0: not limited */
    size_t rows;           /* sites at most; 0: as there is room */
};

enum top_style { TOP_PLAIN, TOP_BOLD, TOP_DIM, TOP_BAR };

/* A line, without its newline; never wider than the terminal. */
typedef void (*top_line)(void *ctx, enum top_style style, const char *text);

/* Calls write for each line, from the top. False: out of memory. */
bool top_lay_out(const struct top_page *page, const struct top_size *size, top_line write,
                 void *ctx);
