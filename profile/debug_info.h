/*
 * The DWARF of one module: its functions, inlined calls and lines.
 *
 * libdw reads the records; what is asked for every address has an index of its
 * own: the ranges of the compilation units (libdw has none without
 * .debug_aranges, which clang leaves out), and the ranges of functions and
 * inlined calls of each unit, made by one walk when an address in it is asked
 * for the first time.
 *
 * Units are read from the file one by one, and let go when they take too much
 * room together, which costs little when addresses are asked in order. What
 * they share stays: strings, the bytes of line tables, and all that is packed.
 *
 * DWARF 2 to 5, with the supplementary file of dwz. Of split DWARF the skeleton
 * is read, which has the lines; the .dwo files are not opened: libdw would
 * look for them in the tool's own root, wherever the module is from.
 */
#pragma once

#include "base/arena.h"
#include "profile/object.h"
#include "profile/symbols.h"

struct debug_info;

/* The objects must have debug information and outlive it; supplement: NULL or dwz's common file. */
struct debug_info *debug_info_open(struct object *object, struct object *supplement,
                                   struct arena *arena, enum symbols_lack *lack);
void debug_info_free(struct debug_info *info);

/* Has the object a .debug_info? */
bool debug_info_present(struct object *object);

/*
 * Lines of a link-time address, innermost first, at most max. Names and the
 * start line may be missing in the last one. 0: it knows nothing.
 */
size_t debug_info_lines(struct debug_info *info, uint64_t address, struct symbol_line *lines,
                        size_t max);
