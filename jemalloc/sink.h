/* Bytes on their way out of a target: kept in the tool's memory, in one piece, up to a limit. */
#pragma once

#include "host/procfs.h"

#include <stdbool.h>
#include <stddef.h>

struct sink {
    unsigned char *bytes;
    size_t len;    /* bytes in use */
    size_t mapped; /* bytes of address space */
    size_t limit;
};

/* A limit: most, or half of what the tool's host has left, but 64 MiB in any case. */
size_t sink_affordable(const struct procfs *proc, size_t most);

void sink_init(struct sink *sink, size_t limit);
/* Room for len more bytes at sink->bytes + sink->len, or NULL: limit reached or no memory. */
unsigned char *sink_reserve(struct sink *sink, size_t len);
void sink_free(struct sink *sink);
