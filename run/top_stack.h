/* One site of top in full: the calls of its largest stack, with file and line. */
#pragma once

#include "run/top_refresh.h"

struct top_stack {
    char *calls; /* of the site, as in struct site; NULL: none is open */
    size_t len;
    size_t stacks;          /* of the site, in the newest profile */
    int64_t bytes, objects; /* of the largest one */
    char *text;             /* its calls, innermost first, each with a newline */
};

/* Opens a site. False: out of memory. */
bool top_stack_open(struct top_stack *stack, const struct site *site);
void top_stack_close(struct top_stack *stack);
/* Returns the site that is open; NULL: it has held nothing for a while. */
const struct site *top_stack_site(const struct top_stack *stack, const struct sites *sites);
/*
 * Reads the site out of the newest profile, which the refresh still has: nothing of the
 * process is read for it but names. False: out of memory.
 */
bool top_stack_take(struct top_stack *stack, struct top_refresh *refresh);
