/* How a profile is looked at: which of its numbers, in which unit, how much of it. */
#pragma once

#include "base/units.h"
#include "profile/samples.h"

enum unit { UNIT_AUTO, UNIT_BYTES, UNIT_KIB, UNIT_MIB, UNIT_GIB };

struct display {
    enum value value;
    enum unit unit; /* of bytes; objects are counted */
    size_t rows;    /* of a table, or nodes of a graph; 0: all */
    double least;   /* a part of the total; what is smaller is left out */
    bool colors;    /* for a terminal */
    const char *title;
};

enum { DISPLAY_NUMBER_SIZE = UNITS_TEXT };

/* "12.3 MiB", "1234" */
const char *display_number(const struct display *display, double number,
                           char out[DISPLAY_NUMBER_SIZE]);
/* Of bytes, whatever the display's value is. */
const char *display_bytes(const struct display *display, double bytes,
                          char out[DISPLAY_NUMBER_SIZE]);
bool display_is_bytes(const struct display *display);
/* The objects that belong to the display's value: in use, or accumulated. */
enum value display_objects(const struct display *display);
/* 100 * part / whole; 0 of nothing. */
double display_percent(double part, double whole);
/* "inuse_space", as pprof calls them. */
const char *value_name(enum value value);
