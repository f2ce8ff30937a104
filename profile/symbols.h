/*
 * Addresses of a process, live or long gone, as functions and places in the
 * source: symbol tables, inlined calls, files and lines.
 *
 * All files are untrusted and are read with pread(2) into private memory, only
 * the parts that are needed (profile/object.h).
 */
#pragma once

#include "elf/image.h"
#include "elf/modules.h"

/* One place in the source: of an inlined call or of the function itself.
 * Strings live as long as the symbols; names are never NULL. */
struct symbol_line {
    const char *function; /* demangled */
    const char *linkage;  /* as the linker knows it */
    const char *file;     /* NULL: unknown */
    unsigned line;        /* 0: unknown */
    unsigned start_line;  /* of the function; 0: unknown */
};

/* A range of addresses that shows a file from offset on: an executable line of /proc/PID/maps. */
struct symbol_mapping {
    uint64_t start, end, offset;
    const char *path;                /* as the target saw it */
    const struct build_id *build_id; /* that its file must have; NULL: not known */
};

struct symbols_options {
    const char *root;              /* directory that paths start at; NULL: "/" */
    const struct target *target;   /* a live one, whose debug files serve too; NULL: none */
    const char *const *debug_dirs; /* searched for .build-id/xx/rest.debug, besides
                                      /usr/lib/debug of the root, the target and the host */
    size_t debug_dir_count;
    bool no_inlines;   /* symbol tables alone: faster, less memory; no files and lines */
    bool debuginfod;   /* ask the servers of $DEBUGINFOD_URLS for debug files */
    bool no_build_ids; /* symbols_build_id tells none, and opens no file to look for it */
    /*
     * Opens the file of a mapping: a descriptor, which is the symbols' to
     * close, or -errno (-ESTALE: another file stands there now). NULL: the path
     * below root. symbols_open_in_target is the one of a live target.
     */
    int (*open)(void *ctx, const struct symbol_mapping *mapping);
    void *ctx;
    uint64_t *left; /* symbols' own: the bytes that may still be read, of all files together */
};

/* The ctx of symbols_open_in_target. */
struct symbols_target {
    const struct modules *modules;
    const struct target *target;
    struct memory *memory;
};
int symbols_open_in_target(void *ctx, const struct symbol_mapping *mapping);

struct symbols;

/* Copies the mappings; opens no file yet. NULL: out of memory. */
struct symbols *symbols_new(const struct symbol_mapping *mappings, size_t count,
                            const struct symbols_options *options);
void symbols_free(struct symbols *symbols);

/*
 * Lines of the code at an address, innermost inlined call first. 0: nothing is
 * known of it. For a return address give address - 1. The lines live as long
 * as the symbols.
 */
size_t symbols_lines(struct symbols *symbols, uint64_t address, const struct symbol_line **lines);

/* The build-id of the file of mapping number index; false: it has none, or it cannot be read. */
bool symbols_build_id(struct symbols *symbols, size_t index, struct build_id *out);

/* Distinct addresses that have been asked for: the memory that symbols take grows with them. */
size_t symbols_asked(const struct symbols *symbols);

/* Why a module's addresses have no names, or no lines. */
enum symbols_lack {
    SYMBOLS_LACK_NOTHING,
    SYMBOLS_LACK_FILE,     /* it could not be opened; err is the errno */
    SYMBOLS_LACK_BUILD_ID, /* the file is another one than that which was mapped */
    SYMBOLS_LACK_ELF,      /* it is no 64-bit ELF file, or a malformed one */
    SYMBOLS_LACK_TABLE,    /* no symbols: stripped, and no debug file was found */
    SYMBOLS_LACK_LINES,    /* names, but no debug information */
    SYMBOLS_LACK_LIBRARY,  /* names; the library that reads debug information is not installed */
};

/* What became of the distinct addresses of one module. */
struct symbols_coverage {
    const char *path;
    uint64_t addresses, with_function, with_line;
    enum symbols_lack lack;
    int err;
};

/* Coverage of module number index; false: there are not so many. */
bool symbols_coverage(const struct symbols *symbols, size_t index, struct symbols_coverage *out);
