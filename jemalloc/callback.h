/*
 * Takes the text that malloc_stats_print hands to a callback of the type
 * void (*)(void *context, const char *text). The target writes nothing.
 */
#pragma once

#include "inject/call.h"
#include "jemalloc/sink.h"

struct callback {
    struct injection *injection;
    struct sink *sink;
    bool gathers; /* through our callback; else at its writes to file descriptor 2 */
    struct gather gather;
    bool overflow;
    int err;
    struct intercept intercept; /* for the call */
};

/*
 * Prepares a call whose text is appended to sink. Its address must not change until the
 * call is over. With gathers, the arguments are gather.function and gather.context, and
 * gather.flush is called after it. Without, there is no executable memory: both are null
 * pointers, and jemalloc writes to file descriptor 2, unless the program has set
 * malloc_message (5.3.0 malloc_io.c, malloc_write).
 */
void callback_begin(struct callback *callback, struct injection *injection, struct sink *sink);

/*
 * After the call. FAULT_TOO_LARGE: the text does not fit into the sink.
 * FAULT_INTERNAL: it could not be read.
 */
fault_code callback_end(const struct callback *callback, const char *stage, struct fault *fault);
