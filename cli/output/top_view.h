/* Lays out the page of top as lines of text, for any terminal size. Uses only the page. */
#pragma once

#include "run/top_stack.h"

/* The rows that are shown: first is set before, and made valid by top_lay_out. */
struct top_scroll {
    size_t first, rows; /* number of the first row, from 0; how many there is space for */
    size_t selected;    /* of the sites: what Enter opens */
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
    const struct top_stack *stack; /* instead of the sites; NULL: none is open */
    const char *status;            /* what a key has done; NULL or "": nothing */
    bool utf8;                     /* lines may have characters that are not ASCII */
};

struct top_size {
    size_t columns, lines; /* 0: not limited */
    size_t rows;           /* maximum number of sites; 0: as many as fit */
};

enum top_style { TOP_PLAIN, TOP_BOLD, TOP_DIM, TOP_BAR, TOP_SELECTED };

/* Receives a line, without its newline; never wider than the terminal. */
typedef void (*top_line)(void *ctx, enum top_style style, const char *text);

/* Calls write for each line, from the top. False: out of memory. */
bool top_lay_out(const struct top_page *page, const struct top_size *size, top_line write,
                 void *ctx);
