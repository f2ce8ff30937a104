/* Bytes on their way out of a target: kept in the tool's memory, in one piece, up to a limit. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct sink {
    unsigned char *bytes;
    size_t len;    /* bytes in use */
    size_t mapped; /* bytes of address space */
    size_t limit;
};

void sink_init(struct sink *sink, size_t limit);
/* Room for len more bytes at sink->bytes + sink->len, or NULL: limit reached or no memory. */
unsigned char *sink_reserve(struct sink *sink, size_t len);
void sink_free(struct sink *sink);
