#include "profile/views/wire.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_LENGTH = 2, VARINT_MAX = 10, WIRE_FIRST = 256 };

/* Returns space for len more bytes, or NULL. */
static unsigned char *wire_reserve(struct wire *wire, size_t len)
{
    size_t capacity = wire->capacity ? wire->capacity : WIRE_FIRST;
    unsigned char *moved;

    if (wire->no_memory || len > SIZE_MAX / 4 - wire->len)
        return NULL;
    while (capacity < wire->len + len)
        capacity *= 2;
    if (capacity != wire->capacity) {
        moved = realloc(wire->bytes, capacity);
        if (!moved) {
            wire->no_memory = true;
            return NULL;
        }
        wire->bytes = moved;
        wire->capacity = capacity;
    }
    return wire->bytes + wire->len;
}

void wire_varint(struct wire *wire, uint64_t value)
{
    unsigned char *at = wire_reserve(wire, VARINT_MAX);

    if (!at)
        return;
    for (; value >= 0x80; value >>= 7)
        *at++ = (unsigned char)(value | 0x80);
    *at++ = (unsigned char)value;
    wire->len = (size_t)(at - wire->bytes);
}

void wire_number(struct wire *wire, unsigned field, uint64_t value)
{
    if (value == 0)
        return;
    wire_varint(wire, (uint64_t)field << 3 | WIRE_VARINT);
    wire_varint(wire, value);
}

void wire_bytes(struct wire *wire, unsigned field, const void *bytes, size_t len)
{
    unsigned char *at;

    wire_varint(wire, (uint64_t)field << 3 | WIRE_LENGTH);
    wire_varint(wire, len);
    at = wire_reserve(wire, len);
    if (!at || len == 0)
        return;
    memcpy(at, bytes, len);
    wire->len += len;
}

void wire_message(struct wire *wire, unsigned field, const struct wire *message)
{
    wire->no_memory |= message->no_memory;
    wire_bytes(wire, field, message->bytes, message->len);
}

void wire_reset(struct wire *wire)
{
    wire->len = 0;
}

void wire_free(struct wire *wire)
{
    free(wire->bytes);
    memset(wire, 0, sizeof *wire);
}
