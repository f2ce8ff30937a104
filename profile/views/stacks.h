/*
 * The stacks of a profile as lists of function names, sorted from the root;
 * equal ones are merged.
 */
#pragma once

#include "profile/views/display.h"

#include <stdio.h>

struct named_stack {
    size_t first;
    uint32_t depth;  /* range in names; outermost first */
    uint32_t sample; /* the first one that has these names */
    struct amount amount;
};

struct stacks {
    uint32_t *names; /* groups of the locations */
    struct named_stack *list;
    size_t count;
    struct table chance; /* its seed alone: no file can choose an order that is slow to sort */
};

/* False: out of memory. */
bool stacks_make(struct stacks *stacks, const struct samples *samples, enum value value);
/* The same, but equal ones stay apart: their places in the source differ. */
bool stacks_make_each(struct stacks *stacks, const struct samples *samples, enum value value);
/* Turns every stack round, so that the innermost call comes first, and sorts them again. */
void stacks_invert(struct stacks *stacks);
void stacks_free(struct stacks *stacks);
/* Returns the number of calls that two stacks have in common, from the root. */
uint32_t stacks_common(const struct stacks *stacks, const struct named_stack *a,
                       const struct named_stack *b);

/*
 * Iterates over the names of a sample as stacks_make takes them, outermost
 * first, or innermost first if from_leaf: the call, and its line of the
 * function, which may be inlined. False at the end. Start with zeros.
 */
struct names_walk {
    bool from_leaf;
    uint32_t call, line;
};
bool stacks_next(const struct samples *samples, const struct sample *sample, struct names_walk *at,
                 const struct location **location, const struct location_line **line);

/*
 * Writes one stack per line, "outer;inner 123"; for a comparison "outer;inner
 * 100 123", before and now. False: out of memory; errors of out are the
 * caller's to check.
 */
bool folded_write(const struct samples *samples, const struct display *display, FILE *out);
