/*
 * The calls of a stack that are shown where there is little room: the program's
 * own code first.
 */
#pragma once

#include "profile/samples.h"

enum {
    STACK_TEXT_MAX = 1024, /* calls; deeper stacks are cut even if all calls are asked for */
    STACK_TEXT_OWN = 8,    /* calls of a row, if no number is asked for */
};

/* A call of a stack, inlined ones included. */
struct stack_call {
    const struct function *function;
    const struct location *location;
    unsigned line;  /* 0: unknown */
    uint32_t place; /* number in the stack, innermost first, from 0 */
};

/* Iterates over the calls of a stack, the innermost first; begin with zeros. */
struct stack_walk {
    uint32_t location, line; /* of the next call */
    struct stack_call call;  /* the one that is returned, with its place */
    bool began;
};

/* Returns the next call, valid until the following one; NULL: there is none. */
const struct stack_call *stack_walk_next(struct stack_walk *walk, const struct samples *samples,
                                         const struct sample *sample);
/* Returns the number of calls; *own: those of the program's own code. */
uint32_t stack_count_calls(const struct samples *samples, const struct sample *sample,
                           uint32_t *own);

/* True for the function that every stack of a program has. */
bool stack_is_main(const struct function *function);

struct stack_text {
    struct stack_call calls[STACK_TEXT_MAX]; /* innermost first */
    size_t count;
    uint32_t left_out; /* calls of the stack that are not among them */
};

/*
 * Chooses at most `limit` calls of a sample, the innermost first. If there are
 * more, only the program's own, unless it has none. limit 0: only its own, at
 * most STACK_TEXT_OWN. The strings live as long as the samples.
 */
void stack_text_choose(const struct samples *samples, const struct sample *sample, size_t limit,
                       struct stack_text *out);
/*
 * Chooses the calls of the program's own code; all of a stack without any. Returns their number,
 * which may be smaller than out->count.
 */
size_t stack_own_calls(const struct samples *samples, const struct sample *sample,
                       struct stack_text *out);
/*
 * Returns the call to name instead of number i, or i: a function of a stripped program that has no
 * name says less than the one of the same file that has called it.
 */
size_t stack_named_call(const struct stack_call *calls, size_t count, size_t i);
