/*
 * Writes messages in the wire format of Protocol Buffers
 * (protobuf.dev/programming-guides/encoding): only the parts that pprof's
 * profile.proto needs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message that is being written; a struct of zeros is an empty one. */
struct wire {
    unsigned char *bytes;
    size_t len, capacity;
    bool no_memory;
};

/* Adds an integer field; 0 is the default and is left out. */
void wire_number(struct wire *wire, unsigned field, uint64_t value);
void wire_bytes(struct wire *wire, unsigned field, const void *bytes, size_t len);
/* Adds a message in a field. */
void wire_message(struct wire *wire, unsigned field, const struct wire *message);
/* Adds a bare varint, as in packed fields. */
void wire_varint(struct wire *wire, uint64_t value);
/* Empties the message and keeps its memory. */
void wire_reset(struct wire *wire);
void wire_free(struct wire *wire);
