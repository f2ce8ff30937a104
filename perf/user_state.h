/* What the kernel copies of a thread when an event is sampled: registers and the end of its stack.
 */
#pragma once

#include "base/util.h"

#include <stddef.h>

/* The registers of PERF_SAMPLE_REGS_USER, by their number in asm/perf_regs.h. */
enum { USER_REGS_MAX = 64 };

struct user_state {
    uint64_t regs[USER_REGS_MAX]; /* regs[i] is valid if bit i of mask is set */
    uint64_t mask;
    const unsigned char
        *stack; /* the bytes from the stack pointer on, as far as they were copied */
    size_t stack_len;
    const uint64_t *chain; /* return addresses that the kernel found by frame pointers, innermost
                              first, the interrupted address included; may be empty */
    size_t chain_len;
};
