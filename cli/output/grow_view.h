/* Who makes the RSS of a process grow, as text or as JSON. */
#pragma once

#include "base/json.h"
#include "profile/views/display.h"
#include "run/grow/grow.h"

/* The stacks with the same functions of the program itself. */
struct grow_row {
    uint64_t hash;
    uint32_t sample; /* the largest of them */
    int64_t largest; /* its bytes */
    int64_t bytes;
    double error; /* two standard deviations */
};

struct grow_rows {
    struct grow_row *list; /* the largest first */
    size_t count;
    int64_t bytes; /* of all rows */
};

/* False: out of memory. grow_rows_free in every case. */
bool grow_rows_make(struct grow_rows *rows, const struct grow *grow, const struct samples *samples);
void grow_rows_free(struct grow_rows *rows);

struct grow_view {
    const struct grow *grow;
    const struct grow_rows *rows;
    const struct samples *samples;
    const struct target *target;
    size_t limit; /* of rows; 0: all */
    size_t depth; /* of a stack (display.h) */
    bool colors;
};

/* Prints what was found, at most limit rows; colors: with escape sequences. */
void grow_print(const struct grow_view *view, FILE *out);
/* Adds the members about the growth: all rows, whatever the limit is. */
void grow_json(const struct grow_view *view, struct json *json);
