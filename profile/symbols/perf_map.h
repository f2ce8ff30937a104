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
#include "profile/symbols/symbols.h"

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

/*
 * The names that a perf map has for the addresses of one process, for a sequence of
 * its profiles.
 */

struct map_names {
    struct arena arena;
    struct perf_map map;
    uint64_t *wanted; /* in any order */
    size_t count, capacity;
    int fd;       /* from map_names_open to map_names_read */
    bool opened;  /* fd is valid */
    dev_t device; /* of the file that was read */
    ino_t inode;
    uint64_t read_to; /* bytes of it */
    int err;          /* why it is not used; 0: it is, or there is none */
};

/* Opens the map, anew for each profile. False: there is none. */
bool map_names_open(struct map_names *names, const struct symbols_options *options);
/* Adds an address, for map_names_read. False: out of memory. */
bool map_names_want(struct map_names *names, uint64_t address);
/* Reads what is not known yet, and closes the map. */
void map_names_read(struct map_names *names);
/* Returns the name of an address that was wanted, or NULL. It lives until the next read. */
const char *map_names_find(const struct map_names *names, uint64_t address);
void map_names_free(struct map_names *names);

/* Names that JIT compilers give to their code. */

/*
 * Fills a line from a name of a perf map, which must live as long as the line.
 * V8 writes "JS:*handle /app/server.js:12:20": the function, how it is compiled, and
 * where it begins (src/logging/code-events.h); one function has several such names.
 * Other names are demangled.
 */
void jit_name_line(struct arena *arena, const char *name, struct symbol_line *line);
