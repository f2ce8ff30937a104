/*
 * Turns the addresses of a process, running or ended, into functions and source
 * locations: symbol tables, inlined calls, files and lines.
 *
 * All files are untrusted. A confined child of the tool reads them (profile/symbols/reader.h).
 */
#pragma once

#include "elf/image.h"
#include "elf/modulefile.h"
#include "elf/modules.h"

/*
 * One source location: of an inlined call or of the function itself. Strings
 * live as long as the symbols; names are never NULL.
 */
struct symbol_line {
    const char *function; /* demangled */
    const char *linkage;  /* the linker's name */
    const char *file;     /* NULL: unknown */
    unsigned line;        /* 0: unknown */
    unsigned start_line;  /* of the function; 0: unknown */
};

/* A range of addresses that maps a file from offset on: an executable line of /proc/PID/maps. */
struct symbol_mapping {
    uint64_t start, end, offset;
    const char *path;                /* as the target sees it */
    const struct build_id *build_id; /* required of its file; NULL: unknown */
    uint64_t inode;                  /* of its file; 0: unknown */
    const char *file;                /* opened in place of path, outside of the root; NULL: none */
};

struct deadline;

/* A name that a profile itself gives to an address: "outer--inner", with inlined calls. */
struct symbol_given {
    uint64_t address;
    const char *text;
};

struct symbols_options {
    const char *root;              /* directory that paths are relative to; NULL: "/" */
    const struct target *target;   /* a running one, whose debug files are used too; NULL: none */
    const char *const *debug_dirs; /* searched for .build-id/xx/rest.debug, besides
                                      /usr/lib/debug of the root, the target and the host */
    size_t debug_dir_count;
    bool no_inlines; /* only symbol tables: faster, less memory; no files and lines */
    /*
     * Also files, lines and inlined calls of the C library and the dynamic loader. They say
     * nothing about the program, and Debian's debug file of the C library, which must be unpacked
     * as a whole, took a seventh of the time of a report of 100,000 stacks.
     */
    bool system_lines;
    bool debuginfod; /* ask the servers of $DEBUGINFOD_URLS for debug files */
    /* Names that the profile itself has; with any, no file is read. They live as long. */
    const struct symbol_given *given; /* in order of addresses */
    size_t given_count;
    bool once;           /* see symbols_finish */
    const char *program; /* the file of the program, wherever it is; NULL: it has its path */
    uint64_t time_ns;    /* of the profile, CLOCK_REALTIME: later files are others; 0: unknown */
    /*
     * Opens the file of a mapping. Returns a file descriptor, owned by the symbols, or -errno
     * (-ESTALE: another file has this path now). NULL: opens the path below root. For a running
     * target: symbols_open_in_target.
     */
    int (*open)(void *ctx, const struct symbol_mapping *mapping);
    /*
     * Opens the perf map of the process (profile/symbols/perf_map.h), with the same ctx. Returns a
     * file descriptor, owned by the symbols, or -errno. NULL: there is none.
     */
    int (*open_map)(void *ctx);
    void *ctx;
    const struct deadline *deadline; /* when the names are given up; NULL: never */
};

/* The ctx of symbols_open_in_target. */
struct symbols_target {
    const struct modules *modules;
    const struct target *target;
    struct memory *memory;
    const struct kept_files *kept; /* where its modules are open already; NULL: nowhere */
};
int symbols_open_in_target(void *ctx, const struct symbol_mapping *mapping);
/*
 * Opens /tmp/perf-PID.map in the target's root, PID being that of its own pid
 * namespace. -EPERM: it belongs neither to the target's user nor to root nor to the
 * tool's user, and may therefore contain the names of another process.
 */
int symbols_open_map_in_target(void *ctx);

struct symbols;
struct deadline;

/* Returns the name of a mapped file (target_file_name). */
const char *symbols_file_name(const struct symbols *symbols, const char *path);

/* Copies the mappings; does not open a file yet. NULL: out of memory. */
struct symbols *symbols_new(const struct symbol_mapping *mappings, size_t count,
                            const struct symbols_options *options);
void symbols_free(struct symbols *symbols);

/*
 * Looks up many addresses at once, which is much quicker; symbols_lines then finds the answers.
 * In the order of addresses each part of the files is read once.
 */
void symbols_ask(struct symbols *symbols, const uint64_t *addresses, size_t count);

/*
 * Finds the lines of the code at an address, innermost inlined call first.
 * Returns their number; 0: nothing is known. For a return address pass address
 * - 1. The lines live as long as the symbols.
 */
size_t symbols_lines(struct symbols *symbols, uint64_t address, const struct symbol_line **lines);

/*
 * Looks for a perf map. True: there is one; after symbols_lines for all addresses in
 * question, symbols_read_map gives names to those that have no other. What has been
 * read is read again only if the text has grown, or if there are new addresses.
 */
bool symbols_find_map(struct symbols *symbols);
void symbols_read_map(struct symbols *symbols);

/* Returns why the perf map is not used: an errno, or 0 if it is used or does not exist. */
int symbols_map_error(const struct symbols *symbols);

/*
 * Finds the build-id of the file that is mapped at an address that was looked up. False: it has
 * none, or it cannot be read.
 */
bool symbols_build_id(struct symbols *symbols, uint64_t address, struct build_id *out);

/*
 * Returns the number of distinct addresses looked up so far: the memory that
 * symbols use grows with them.
 */
size_t symbols_asked(const struct symbols *symbols);

/*
 * Ends the work on addresses, if the option `once` was given: closes the files and frees what
 * was read from them, which may be hundreds of megabytes. symbols_lines finds nothing
 * afterwards, and the strings of its former results are gone; symbols_coverage still works.
 */
void symbols_finish(struct symbols *symbols);

/* The reason why a module's addresses have no names, or no lines. */
enum symbols_lack {
    SYMBOLS_LACK_NOTHING,
    SYMBOLS_LACK_FILE,     /* it could not be opened; err is the errno */
    SYMBOLS_LACK_BUILD_ID, /* the file is not the one that was mapped */
    SYMBOLS_LACK_ELF,      /* not a 64-bit ELF file, or malformed */
    SYMBOLS_LACK_TABLE,    /* no symbols: stripped, and no debug file was found */
    SYMBOLS_LACK_LINES,    /* names, but no debug information */
    SYMBOLS_LACK_LIBRARY,  /* names; the library that reads debug information is not installed */
};

/* Why a file may not be the one that was mapped, where no build-id tells. */
enum symbols_doubt {
    SYMBOLS_DOUBT_NONE,
    SYMBOLS_DOUBT_INODE,
    SYMBOLS_DOUBT_TIME, /* it was changed after the profile */
};

/* How much is read of a module: less each time that the reader ends over it. */
enum symbols_trust {
    SYMBOLS_TRUST_ALL,
    SYMBOLS_TRUST_TABLES, /* no debug information: names only */
    SYMBOLS_TRUST_RAW,    /* nor is anything demangled */
    SYMBOLS_TRUST_NONE,   /* nothing */
};

/* Why the files of a module were not read to their end. */
enum symbols_loss {
    SYMBOLS_LOSS_NOTHING,
    SYMBOLS_LOSS_CRASHED,     /* the reader crashed, or answered nonsense */
    SYMBOLS_LOSS_MEMORY,      /* it needed too much memory */
    SYMBOLS_LOSS_TIME,        /* and too much time */
    SYMBOLS_LOSS_INTERRUPTED, /* Ctrl-C, or the deadline */
    SYMBOLS_LOSS_NO_READER,   /* no child process could be started */
    SYMBOLS_LOSS_WORK,        /* a debug file exceeds a limit of checksums or of unpacking */
};

/* The results for the distinct addresses of one module. */
struct symbols_coverage {
    const char *path;
    uint64_t addresses, with_function, with_line;
    enum symbols_lack lack;
    enum symbols_doubt doubt;
    int err;
    enum symbols_loss loss;
    enum symbols_trust trust; /* with a loss: what is read of it */
    uint64_t split_missing;   /* units whose .dwo file was not found */
    const char *split_path;   /* the first of them; NULL: none */
};

/* Returns the coverage of module number index. False: there is no such module. */
bool symbols_coverage(const struct symbols *symbols, size_t index, struct symbols_coverage *out);
