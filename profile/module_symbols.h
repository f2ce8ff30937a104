/* What is known of the code of one module: its file, its debug files, their indexes. */
#pragma once

#include "profile/symbol_index.h"
#include "profile/symbols.h"

struct module_symbols {
    const char *path;
    bool opened;
    enum symbols_lack lack;
    int err;
    struct build_id build_id; /* of the file; len 0: none */
    struct object *file;      /* NULL: could not be opened */
    struct symbol_index index;
    uint64_t addresses, with_function, with_line;
};

/* Opens it the first time; never fails: lack says what there is not. */
void module_symbols_open(struct module_symbols *module, const struct symbol_mapping *mapping,
                         const struct symbols_options *options, struct arena *arena);
void module_symbols_free(struct module_symbols *module);

/* As symbols_lines, of a file offset. */
size_t module_symbols_lines(struct module_symbols *module, uint64_t offset, struct arena *arena,
                            const struct symbol_line **lines);
