/*
 * Where the memory is that is free but not returned: an answer, rows that add up to the RSS, the
 * stacks that keep the free space of slabs, and what helps. As text or as JSON.
 */
#pragma once

#include "cli/output/advice.h"
#include "profile/views/display.h"
#include "run/frag.h"

struct frag_view {
    const struct frag *frag;
    const struct advice_setup *setup;
    const struct samples *samples; /* NULL: there is no profile */
    const struct waste *waste;
    const struct display *display;
    const char *name;
    int pid;
    bool in_program; /* its jemalloc is linked into the program */
    bool verbose;    /* all calls of a stack, and its rows also where there is little waste */
};

/* Prints the answer, the parts and the stacks, of which display says how many. */
void frag_print(const struct frag_view *view, FILE *out);
/* Adds the members. */
void frag_json(const struct frag_view *view, struct json *json);
