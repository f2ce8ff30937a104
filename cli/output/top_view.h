/* Lays out the page of top as lines of text, for any terminal size. Uses only the page. */
#pragma once

#include "run/top_refresh.h"

/* The rows that are shown: first is set before, and made valid by top_lay_out. */
struct top_scroll {
    size_t first, rows; /* sites: number of the first one, from 0; how many there is space for */
};

/* The model, and messages about it. */
struct top_page {
    const struct top_model *model;
    const char *clock;      /* the time of day */
    enum sites_order order; /* of the rows */
    const char *why, *next; /* without a profile: the reason and the next step (text or command) */
    const char *missed;     /* why the latest refresh failed; NULL: it succeeded */
    bool keys;              /* keys are read: the last line lists them */
    const char *next_in;    /* until the next refresh: "3 s"; "": not known */
    struct top_scroll *scroll;
};

struct top_size {
    size_t columns, lines; /* 0: not limited */
    size_t rows;           /* maximum number of sites; 0: as many as fit */
};

enum top_style { TOP_PLAIN, TOP_BOLD, TOP_DIM, TOP_BAR };

/* Receives a line, without its newline; never wider than the terminal. */
typedef void (*top_line)(void *ctx, enum top_style style, const char *text);

/* Calls write for each line, from the top. False: out of memory. */
bool top_lay_out(const struct top_page *page, const struct top_size *size, top_line write,
                 void *ctx);
