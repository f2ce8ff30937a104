/* The symbols of one module: its files and their indexes. */
#pragma once

#include "profile/symbols/debug_info.h"
#include "profile/symbols/module_files.h"
#include "profile/symbols/symbol_index.h"

struct module_symbols {
    const char *path;
    bool opened, loaded;
    bool no_inlines;
    const struct symbols_options *options;
    enum symbols_lack lack;
    int err;
    struct module_files files;
    struct debug_files split_files;
    struct debug_missing missing; /* of debug, when that has been freed */
    struct symbol_index index;
    struct debug_info *debug; /* NULL: none, or not requested */
    uint64_t addresses, with_function, with_line;
};

/* Opens its files the first time; never fails: lack says what is missing. */
void module_symbols_open(struct module_symbols *module, const struct symbol_mapping *mapping,
                         const struct symbols_options *options);
/* Closes the files and frees all indexes; the numbers and lack stay. */
void module_symbols_free(struct module_symbols *module);

/* Does the same as symbols_lines, for a file offset. */
size_t module_symbols_lines(struct module_symbols *module, uint64_t offset, struct arena *arena,
                            const struct symbol_line **lines);
