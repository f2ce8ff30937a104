/* What top shows, as lines of text: from the model alone, for any size of a terminal. */
#pragma once

#include "profile/sites.h"
#include "run/trends.h"

struct top_model {
    const char *name; /* of the process */
    int pid;
    const char *version; /* of jemalloc; "": not known yet */
    const char *clock;   /* the time of day */
    struct trends trends;
    bool has_stats;            /* jemalloc has gauges (config.stats) */
    const struct sites *sites; /* NULL: there is no profile; why and next tell */
    enum sites_order order;    /* of the rows */
    const char *why, *next;    /* the one next step, a command or a sentence */
    const char *missed;        /* why the newest refresh brought nothing; NULL: it did */
    uint64_t asked, interval;  /* nanoseconds between refreshes; 0: there is one only */
    uint64_t held, longest;    /* how long a thread was held: in the newest refresh, and at most */
    unsigned percent;          /* of the time that threads may be held */
    double share;              /* of the time that threads are held */
    uint64_t refreshes;        /* so far */
};

struct top_size {
    size_t columns, lines; /* 0: not limited */
    size_t rows;           /* sites at most; 0: as there is room */
};

enum top_style { TOP_PLAIN, TOP_BOLD, TOP_DIM, TOP_BAR };

/* A line, without its newline; never wider than the terminal. */
typedef void (*top_line)(void *ctx, enum top_style style, const char *text);

/* Calls write for each line, from the top. False: out of memory. */
bool top_lay_out(const struct top_model *model, const struct top_size *size, top_line write,
                 void *ctx);
