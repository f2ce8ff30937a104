/* How a profile is shown: which value, in which unit, and how much of it. */
#pragma once

#include "base/units.h"
#include "profile/samples.h"

#include <stdint.h>
#include <stdio.h>

/* Why the names, or the amounts, may not be those of the process. */
enum display_doubt {
    DOUBT_NONE,
    DOUBT_CUT,      /* the profile ends before its maps */
    DOUBT_MAPS_CUT, /* within them */
    DOUBT_MAPPED,   /* a file is not the one that was mapped: it gives no names */
    DOUBT_INODE,    /* it may not be, and gives names */
    DOUBT_CHANGED,  /* it was changed after the profile, and gives names */
};

enum unit { UNIT_AUTO, UNIT_BYTES, UNIT_KIB, UNIT_MIB, UNIT_GIB };

/* The order of a table: by what a function allocates itself, or with all that it calls. */
enum display_sort { SORT_FLAT, SORT_CUM };

struct display {
    enum value value;
    enum unit unit;  /* for bytes; objects are counted */
    size_t rows;     /* maximum rows of a table, or nodes of a graph; 0: all */
    double least;    /* share of the total; smaller entries are left out */
    bool colors;     /* for a terminal */
    bool full_names; /* with template arguments, return types and parameters */
    size_t depth;    /* maximum calls of a stack, or DISPLAY_DEPTH_ALL; 0: what suits the view */
    enum display_sort sort;
    bool lines;    /* rows and nodes are lines of the source, not functions */
    bool inverted; /* a tree, or a flame graph, starts with the functions that allocate; their
                      callers are below */
    bool unfolded; /* every call of a stack has a row */
    bool utf8;     /* lines may be drawn with characters that are not ASCII */
    size_t width;  /* columns of the terminal; 0: unlimited */
    const char *title;
    enum display_doubt doubt;
    const char *doubted;                 /* the path of the file */
    size_t more_doubted;                 /* files, besides */
    uint64_t unread_stacks, read_stacks; /* left out of the profile, and those in it; 0: unknown */
    size_t odd_lines, lines_read;        /* of a file: of an unknown form, and about all others */
    const char *command;                 /* of the process, with its arguments; NULL: unknown */
    uint64_t rss, time_ns; /* of the process; of the profile, CLOCK_REALTIME; 0: unknown */
    bool touched;          /* not objects, but pages by who has touched them first */
};

#define DISPLAY_DEPTH_ALL SIZE_MAX

enum { DISPLAY_NUMBER_SIZE = UNITS_TEXT, DISPLAY_CHANGE_SIZE = DISPLAY_NUMBER_SIZE + 1 };

enum { DISPLAY_TITLE_SIZE = 1024 };

/* NULL: none */
const char *display_doubt_name(enum display_doubt doubt);

/*
 * The title, with the doubt, and with what is left out if that is more than a hundredth: the first
 * line of each view.
 */
const char *display_title(const struct display *display, char out[DISPLAY_TITLE_SIZE]);

/* Formats a number of the displayed value: "12.3 MiB", "1234". */
const char *display_number(const struct display *display, double number,
                           char out[DISPLAY_NUMBER_SIZE]);
/* Formats bytes, whatever the displayed value is. */
const char *display_bytes(const struct display *display, double bytes,
                          char out[DISPLAY_NUMBER_SIZE]);
/* The same for a difference, with its sign: "+12.3 MiB". */
const char *display_change(const struct display *display, double number,
                           char out[DISPLAY_CHANGE_SIZE]);
const char *display_bytes_change(const struct display *display, double bytes,
                                 char out[DISPLAY_CHANGE_SIZE]);
bool display_is_bytes(const struct display *display);
/* Returns the object count that belongs to the displayed value: in use, or accumulated. */
enum value display_objects(const struct display *display);
/* Returns 100 * part / whole; 0 if whole is 0. */
double display_percent(double part, double whole);
/* Returns pprof's name, such as "inuse_space". */
const char *value_name(enum value value);

/* The columns of numbers before a stack or a call: the same in each view of stacks as text. */

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
