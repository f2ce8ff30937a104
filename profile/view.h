/* How a profile is looked at: which of its numbers, in which unit, how much of it. */
#pragma once

#include "profile/samples.h"

enum unit { UNIT_AUTO, UNIT_BYTES, UNIT_KIB, UNIT_MIB, UNIT_GIB };

struct view {
    enum value value;
    enum unit unit; /* of bytes; objects are counted */
    size_t rows;    /* of a table, or nodes of a graph; 0: all */
    double least;   /* a part of the total; what is smaller is left out */
    bool colors;    /* for a terminal */
    const char *title;
};

enum { VIEW_NUMBER_SIZE = 32 };

/* "12.3 MiB", "1234" */
const char *view_number(const struct view *view, double number, char out[VIEW_NUMBER_SIZE]);
/* Of bytes, whatever the view's value is. */
const char *view_bytes(const struct view *view, double bytes, char out[VIEW_NUMBER_SIZE]);
bool view_is_bytes(const struct view *view);
/* The objects that belong to the view's value: in use, or accumulated. */
enum value view_objects(const struct view *view);
/* 100 * part / whole; 0 of nothing. */
double view_percent(double part, double whole);
/* "inuse_space", as pprof calls them. */
const char *value_name(enum value value);
