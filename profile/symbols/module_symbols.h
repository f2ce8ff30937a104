/* The symbols of one module, read from its files: in the confined child. */
#pragma once

#include "profile/symbols/channel.h"
#include "profile/symbols/debug_info.h"
#include "profile/symbols/symbol_index.h"

/* A file that describes the code of a module. */
struct file_wanted {
    enum channel_file_kind what;
    const char *dir, *name;    /* of CHANNEL_SUPPLEMENT and CHANNEL_SPLIT; may be NULL */
    const struct build_id *id; /* of CHANNEL_SUPPLEMENT */
    unsigned attempt;          /* of CHANNEL_SPLIT */
};

/* Who opens them. Returns a file descriptor, which the caller owns, or -errno. */
struct file_opener {
    int (*open)(void *ctx, size_t module, const struct file_wanted *wanted);
    void *ctx;
};

struct module_symbols {
    const struct file_opener *opener;
    size_t number; /* of the module */
    bool lines;    /* files, lines and inlined calls are wanted, too */
    bool raw;      /* names stay as the linker has them */
    bool loaded;
    bool no_memory; /* the tables are not complete */
    enum symbols_lack lack;
    struct object *module;     /* NULL: it could not be opened */
    struct object *mini;       /* its .gnu_debugdata */
    struct object *separate;   /* its separate debug file */
    struct object *supplement; /* the part of the debug file that dwz has moved out */
    struct debug_files split_files;
    struct debug_info *debug; /* NULL: none, or not wanted */
    struct symbol_index index;
    struct arena arena;
};

/* The lines of code at an offset in the module's file; they live as long as it. */
size_t module_symbols_lines(struct module_symbols *module, uint64_t offset,
                            const struct symbol_line **lines);
/* True if something is missing for lack of memory. */
bool module_symbols_lack_memory(const struct module_symbols *module);
/* Split files that are missing, so far. */
struct debug_missing module_symbols_missing(const struct module_symbols *module);
void module_symbols_free(struct module_symbols *module);
