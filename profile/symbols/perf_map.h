/*
 * The names of code that a program has made at run time, which its JIT compiler
 * writes to a text (tools/perf/Documentation/jit-interface.txt of Linux):
 *
 *   3f2a040 1c8 JS:*handle /app/server.js:12:20        START SIZE name
 *
 * START and SIZE are hexadecimal, with or without 0x; lines are in the order in
 * which they were written, so that of two that cover an address the last is
 * right. Only the names of the addresses in question are kept: the memory does
 * not grow with the text, which may have any size and content.
 */
#pragma once

#include "base/arena.h"

#include <stdint.h>

struct perf_name {
    uint64_t address;
    const char *name; /* in the arena; NULL: no line covers the address */
};

struct perf_map {
    struct perf_name *names; /* the addresses in question, sorted, no two alike */
    size_t count;
    struct arena *arena;
    uint64_t lines, odd; /* read; of another form */
    uint64_t hits;       /* lines that cover an address, times the addresses */
    uint64_t kept;       /* bytes of names */
    bool overrun;        /* no compiler writes this; all names are then unknown */
};

/*
 * Takes the lines of a part of the text. Returns the length of the complete
 * lines: what follows the last newline is not taken.
 */
size_t perf_map_take(struct perf_map *map, const char *text, size_t len);

/* Takes the complete lines of a file from a position on. Returns where they end. */
uint64_t perf_map_read(struct perf_map *map, int fd, uint64_t from);
