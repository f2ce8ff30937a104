/* What grows in a process, as text or as JSON. */
#pragma once

#include "base/json.h"
#include "cli/output/grow_view.h"
#include "host/limits.h"
#include "profile/views/growth.h"
#include "run/explain/own_limit.h"
#include "run/leak/parts.h"

struct leak_view {
    const struct attachment *attachment;
    const struct leak *leak;
    const struct verdict *verdict; /* NULL: there are no counts by size */
    const struct parts *parts;
    const struct samples *samples; /* of the profiles; NULL: none */
    const struct growth *growth;   /* of them */
    struct growth_answer answer;   /* of it */
    struct own_limit own_limit;
    struct limit_use use;           /* at the end; limit 0: not known */
    bool machine;                   /* it is of the machine, not of a cgroup */
    bool wasteful;                  /* frag has something to say of it */
    const struct grow_view *faults; /* NULL: nothing was seen of pages and page faults */
    const struct display *display;
    size_t rows;     /* of the table; 0: all */
    bool rows_given; /* else as many as the screen has lines for */
    bool verbose;    /* all that the answer rests on */
};

/* Prints the answer, what it rests on, and the tables. */
void leak_print(const struct leak_view *view, FILE *out);
/* Adds the members about the growth. */
void leak_json(const struct leak_view *view, struct json *json);
