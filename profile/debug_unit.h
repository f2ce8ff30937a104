/* Inner parts of debug_info.h: its files and their compilation units. */
#pragma once

#include "base/table.h"
#include "profile/debug_info.h"
#include "profile/libdw.h"
#include "profile/spans.h"

/* A function or an inlined call that has code. */
struct debug_scope {
    void *die;       /* Dwarf_Die.addr */
    uint32_t parent; /* in scopes; SPANS_NONE: a function */
};

/* A namespace, class or function, whose name belongs to those of the functions in it. */
struct debug_container {
    void *die;
    uint32_t parent; /* in containers, or SPANS_NONE */
};

/* Functions from this DIE on are in this container. */
struct debug_place {
    void *die;
    uint32_t container;
};

/*
 * A unit has a use for a while: its records are read, walked, and let go when
 * those of others need the room. What is kept of it are the offsets and ranges.
 */
struct debug_unit {
    Dwarf_Die die;               /* while it is ready */
    Dwarf_Off start, first, end; /* offsets in .debug_info, of the header, of the DIE */
    bool supplement;             /* it is in that file */
    bool ranged;                 /* its own DIE tells where its code is */
    bool loaded;                 /* its bytes are there */
    bool ready, walked, lined;
    uint64_t items; /* of items_left, that its walk took */
    struct debug_scope *scopes;
    size_t scope_count, scope_room;
    struct spans spans; /* of scopes */
    struct debug_container *containers;
    size_t container_count, container_room;
    struct debug_place *places; /* by die */
    size_t place_count, place_room;
};

struct debug_function {
    void *die;
    struct symbol_line line; /* without file and line */
};

/* The module's own, or the supplement. */
struct debug_file {
    struct object *object;
    Elf *elf;
    Dwarf *dwarf;
    const unsigned char *info; /* .debug_info, as long as elf; NULL: no unit is in it */
    uint64_t offset; /* of .debug_info, when it is read unit by unit; 0: it is all there */
    uint64_t size;   /* of .debug_info */
};

struct debug_info {
    struct libdw lib;
    struct debug_file own, supplement;
    struct debug_unit *units; /* by offset; those of the supplement last */
    size_t own_count, unit_count, unit_room;
    struct spans index; /* of units */
    struct spans rest;  /* of units that do not tell where their code is */
    bool rest_done;
    uint64_t budget;     /* DIEs and ranges that may still be read: no honest file has more */
    uint64_t items_left; /* of 16 to 24 bytes, that may still be kept of them */
    uint64_t held;       /* bytes in the use of units, about */
    uint64_t reads_left; /* bytes of units that may be read before no more are let go */
    struct table function_table, path_table;
    struct debug_function *functions;
    size_t function_count, function_room;
    const char **paths; /* distinct ones */
    size_t path_count, path_room;
    struct arena *arena;
};

/* False: libdw does not take it, or out of memory. */
bool debug_file_open(struct debug_info *info, struct debug_file *file, struct object *object);
/* Finds the units of an open file. */
void debug_file_units(struct debug_info *info, struct debug_file *file);
void debug_file_close(struct debug_info *info, struct debug_file *file);

/* Makes a unit's bytes and its DIE valid until debug_make_room; false: they cannot be read. */
bool debug_unit_load(struct debug_info *info, struct debug_unit *unit);
bool debug_unit_ready(struct debug_info *info, struct debug_unit *unit);
/*
 * Lets all units go if they take too much room: a Dwarf_Die, an address in
 * .debug_info and whatever libdw gave is invalid then.
 */
void debug_make_room(struct debug_info *info);

/* Walks the DIEs of a unit once; false: it is not ready. What there was no memory for is missing.
 */
bool debug_unit_walk(struct debug_info *info, struct debug_unit *unit);
/* Frees what the walk made. */
void debug_unit_free(struct debug_unit *unit);
/* The unit that an address in .debug_info is in (Dwarf_Die.addr), or NULL. */
struct debug_unit *debug_unit_of(struct debug_info *info, const void *at);

/* Adds the ranges of a DIE; false if it has none (or lies at 0, where a linker puts what it drops).
 */
bool debug_ranges(struct debug_info *info, Dwarf_Die *die, uint32_t depth, uint32_t value,
                  struct spans *spans);

/* Attributes, of the DIE itself; NULL, 0 and false: it has none. */
/* The text is in a section that stays, or in .debug_info: debug_keep. */
const char *debug_string(struct debug_info *info, Dwarf_Die *die, unsigned name);
/* The text for as long as the symbols live, NULL included. */
const char *debug_keep(struct debug_info *info, const char *text);
unsigned debug_number(struct debug_info *info, Dwarf_Die *die, unsigned name);
bool debug_reference(struct debug_info *info, Dwarf_Die *die, unsigned name, Dwarf_Die *out);

/* Name and start line of the function of a scope. */
void debug_name(struct debug_info *info, Dwarf_Die *die, struct symbol_line *line);
/* A path as the compiler wrote it, made absolute with the directory of the unit, which is ready. */
const char *debug_path(struct debug_info *info, struct debug_unit *unit, const char *path);
