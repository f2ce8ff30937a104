/*
 * The calls of a stack that are shown where there is little room: the program's
 * own code first.
 */
#pragma once

#include "profile/display.h"

enum { STACK_TEXT_MAX = 64 };

/* A call of a stack, inlined ones included. */
struct stack_call {
    const struct function *function;
    unsigned line;  /* 0: unknown */
    uint32_t place; /* number in the stack, innermost first, from 0 */
};

struct stack_text {
    struct stack_call calls[STACK_TEXT_MAX]; /* innermost first */
    size_t count;
    uint32_t left_out; /* calls of the stack that are not among them */
};

/*
 * Chooses at most `limit` calls of a sample. Prefers the program's own; keeps
 * their order. The strings live as long as the samples.
 */
void stack_text_choose(const struct samples *samples, const struct sample *sample, size_t limit,
                       struct stack_text *out);
