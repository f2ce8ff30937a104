/* The sample of a heap's objects as a table and as JSON. */
#pragma once

#include "base/json.h"
#include "run/peek/peek.h"

struct peek_view {
    const struct peek *peek;
    const char *name; /* of the process */
    int pid;
    const char *origin; /* added to it: " (core file)"; NULL: nothing */
    size_t rows;        /* at most; SIZE_MAX: all */
    bool rows_given;    /* by --rows: also those whose share is 0 */
    bool show_bytes;    /* print bytes of the heap */
};

/* Prints at most `rows` rows. What a heap holds is shown with show_bytes alone. */
void peek_print(const struct peek_view *view, FILE *out);
/* Adds the members of the document. */
void peek_json(const struct peek_view *view, struct json *json);
