/*
 * The DWARF of one module: its functions, inlined calls and lines.
 *
 * libdw reads the records. Data that is needed for every address has its own
 * index: the ranges of the compilation units (libdw has none without
 * .debug_aranges, which clang omits), and the ranges of functions and inlined
 * calls of each unit, made by one walk at the first address in the unit.
 *
 * Units are read from the file one by one, and freed when they use too much
 * memory together, which costs little if addresses are looked up in order. The
 * data that they share stays: strings, the bytes of line tables, and all
 * compressed data.
 *
 * DWARF 2 to 5, with the supplementary file of dwz, and split DWARF of GNU (4) and
 * of the standard (5): the skeleton in the module has the lines, its .dwo file has
 * the functions. libdw would look for these files in the tool's own root, wherever
 * the module is from; here the caller opens them.
 */
#pragma once

#include "base/arena.h"
#include "profile/symbols/object.h"
#include "profile/symbols/symbols.h"

struct debug_info;

/* How split files are opened. */
struct debug_files {
    /*
     * Opens the file that a skeleton names: name, relative to the directory dir. Returns
     * the file descriptor, which the caller owns, or -errno; attempt counts from 0 on, and
     * -ENOENT is returned when there is no other place to look at.
     */
    int (*open)(void *ctx, const char *dir, const char *name, unsigned attempt);
    void *ctx;
};

/* Split files that were not found, or belong to another build. */
struct debug_missing {
    uint64_t count;
    const char *path; /* of the first one; NULL: none */
};

/*
 * Opens the debug information of object, which must have some. Both objects
 * must outlive it. supplement: dwz's common file, or NULL. files: must outlive it.
 */
struct debug_info *debug_info_open(struct object *object, struct object *supplement,
                                   const struct debug_files *files, struct arena *arena,
                                   enum symbols_lack *lack);
const struct debug_missing *debug_info_missing(const struct debug_info *info);
/* True if lines are missing for lack of memory. */
bool debug_info_lacks_memory(const struct debug_info *info);
void debug_info_free(struct debug_info *info);

/* True if the object has a .debug_info. */
bool debug_info_present(struct object *object);

/*
 * Finds the lines of a link-time address, innermost first, at most max. Name
 * and start line may be missing in the last one. Returns their number; 0:
 * nothing is known.
 */
size_t debug_info_lines(struct debug_info *info, uint64_t address, struct symbol_line *lines,
                        size_t max);
