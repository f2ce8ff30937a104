/* Replaces the symbolizer: names and lines of addresses are chosen by a test. */
#pragma once

#include "profile/symbols/symbols.h"

#include <stdlib.h>
#include <string.h>

struct stub_symbol {
    uint64_t start, end;
    struct symbol_line lines[3]; /* innermost first; of function NULL: the end */
};

/* The table that symbols_new uses next: one program's, ended by a row of zeros. */
static const struct stub_symbol *stub_next;

struct symbols {
    const struct stub_symbol *table;
};

struct symbols *symbols_new(const struct symbol_mapping *mappings, size_t count,
                            const struct symbols_options *options)
{
    struct symbols *symbols = malloc(sizeof *symbols);

    (void)mappings;
    (void)count;
    (void)options;
    if (symbols)
        symbols->table = stub_next;
    return symbols;
}

void symbols_free(struct symbols *symbols)
{
    free(symbols);
}

void symbols_finish(struct symbols *symbols)
{
    (void)symbols;
}

void symbols_ask(struct symbols *symbols, const uint64_t *addresses, size_t count)
{
    (void)symbols;
    (void)addresses;
    (void)count;
}

size_t symbols_lines(struct symbols *symbols, uint64_t address, const struct symbol_line **lines)
{
    for (const struct stub_symbol *at = symbols->table; at && at->end; at++)
        if (address >= at->start && address < at->end) {
            size_t n = 0;
            while (n < 3 && at->lines[n].function)
                n++;
            *lines = at->lines;
            return n;
        }
    return 0;
}

const char *symbols_file_name(const struct symbols *symbols, const char *path)
{
    const char *slash = strrchr(path, '/');

    (void)symbols;
    return slash ? slash + 1 : path;
}

bool symbols_find_map(struct symbols *symbols)
{
    (void)symbols;
    return false;
}

void symbols_read_map(struct symbols *symbols)
{
    (void)symbols;
}

bool symbols_build_id(struct symbols *symbols, uint64_t address, struct build_id *out)
{
    (void)symbols;
    out->len = 2;
    out->bytes[0] = 0xab;
    out->bytes[1] = (unsigned char)(address >> 12);
    return true;
}

bool symbols_coverage(const struct symbols *symbols, size_t index, struct symbols_coverage *out)
{
    (void)symbols;
    (void)index;
    (void)out;
    return false;
}

size_t symbols_asked(const struct symbols *symbols)
{
    (void)symbols;
    return 0;
}
