/* A buffer in the tool for bytes from a target: contiguous, up to a limit. */
#pragma once

#include "base/fault.h"
#include "host/procfs.h"

#include <stdbool.h>
#include <stdio.h>

struct sink {
    unsigned char *bytes;
    size_t len;    /* bytes in use */
    size_t mapped; /* bytes of address space */
    size_t limit;
    /* Not NULL: takes the bytes from time to time, so that there need not be space for all. */
    void (*drain)(void *ctx, const unsigned char *bytes, size_t len);
    void *drain_ctx;
    size_t drained; /* bytes */
};

/* Returns a limit: most, or half of the memory available on the host, but at least 64 MiB. */
size_t sink_affordable(const struct procfs *proc, size_t most);

void sink_init(struct sink *sink, size_t limit);
/*
 * Makes space for len more bytes and returns it; NULL: limit reached or out of memory.
 * With drain, the bytes before may be gone.
 */
unsigned char *sink_reserve(struct sink *sink, size_t len);
/* Sets FAULT_TOO_LARGE with the limit, after sink_reserve has returned NULL. */
fault_code sink_refuse(const struct sink *sink, const char *stage, struct fault *fault);
/*
 * Appends what print writes to a stream; false of print: out of memory. FAULT_TOO_LARGE;
 * FAULT_INTERNAL with `what`; then nothing is appended.
 */
typedef bool (*sink_printer)(const void *ctx, FILE *out);
fault_code sink_print(struct sink *sink, sink_printer print, const void *ctx, const char *stage,
                      const char *what, struct fault *fault);
/*
 * Frees the memory of a part of the bytes, as far as it fills pages: their contents
 * are undefined then; the rest stays where it is.
 */
void sink_forget(struct sink *sink, size_t first, size_t len);
void sink_free(struct sink *sink);
