/* A cursor over DWARF data (DWARF 5, 7.6). A read beyond the end yields 0 and sets bad. */
#pragma once

#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct dwarf_bytes {
    const unsigned char *at, *end;
    bool bad;
};

static inline size_t dwarf_left(const struct dwarf_bytes *bytes)
{
    return (size_t)(bytes->end - bytes->at);
}

/* Reads a number of 1, 2, 4 or 8 bytes. */
static inline uint64_t dwarf_fixed(struct dwarf_bytes *bytes, size_t size)
{
    uint64_t value = 0;

    if (dwarf_left(bytes) < size) {
        bytes->bad = true;
        bytes->at = bytes->end;
        return 0;
    }
    memcpy(&value, bytes->at, size);
    bytes->at += size;
    return value;
}

static inline int64_t dwarf_fixed_signed(struct dwarf_bytes *bytes, size_t size)
{
    unsigned unused = 64 - 8 * (unsigned)size;

    return (int64_t)(dwarf_fixed(bytes, size) << unused) >> unused;
}

/* Reads the bits of a LEB128 number, and their number; those above 64 are dropped. */
static inline uint64_t dwarf_leb(struct dwarf_bytes *bytes, unsigned *shift, unsigned char *last)
{
    uint64_t value = 0;

    *shift = 0;
    do {
        *last = (unsigned char)dwarf_fixed(bytes, 1);
        if (*shift < 64)
            value |= (uint64_t)(*last & 0x7f) << *shift;
        *shift += 7;
    } while (*last & 0x80);
    return value;
}

static inline uint64_t dwarf_uleb(struct dwarf_bytes *bytes)
{
    unsigned shift;
    unsigned char last;

    return dwarf_leb(bytes, &shift, &last);
}

static inline int64_t dwarf_sleb(struct dwarf_bytes *bytes)
{
    unsigned shift;
    unsigned char last;
    uint64_t value = dwarf_leb(bytes, &shift, &last);

    if (shift < 64 && last & 0x40)
        value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
}

/* Takes a block of len bytes off; empty and bad if there are fewer. */
static inline struct dwarf_bytes dwarf_block(struct dwarf_bytes *bytes, uint64_t len)
{
    struct dwarf_bytes block = {bytes->at, bytes->at, false};

    if (len > dwarf_left(bytes)) {
        bytes->bad = block.bad = true;
        return block;
    }
    bytes->at += len;
    block.end = bytes->at;
    return block;
}
