/* Inner parts of debug_info.h: one compilation unit. */
#pragma once

#include "profile/debug_info.h"
#include "profile/libdw.h"
#include "profile/spans.h"
#include "profile/table.h"

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

struct debug_unit {
    Dwarf_Die die;
    Dwarf_Off end; /* offset in .debug_info */
    bool walked;
    bool ranged; /* its own DIE tells where its code is */
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

struct debug_path {
    const char *given, *path;
};

struct debug_info {
    struct libdw lib;
    Elf *elf, *supplement_elf;
    Dwarf *dwarf, *supplement;
    struct debug_unit *units; /* by offset; those of the supplement last */
    size_t own_count, unit_count, unit_room;
    struct spans index; /* of units */
    struct spans rest;  /* of units that do not tell where their code is */
    bool rest_done;
    uint64_t budget;     /* DIEs and ranges that may still be read: no honest file has more */
    uint64_t items_left; /* of 16 to 24 bytes, that may still be kept of them */
    struct table function_table, path_table;
    struct debug_function *functions;
    size_t function_count, function_room;
    struct debug_path *paths; /* relative ones, made absolute */
    size_t path_count, path_room;
    struct arena *arena;
};

/* Walks the DIEs of a unit once. What there was no memory for is missing. */
void debug_unit_walk(struct debug_info *info, struct debug_unit *unit);
void debug_unit_free(struct debug_unit *unit);
/* The unit that a DIE is in, or NULL. */
struct debug_unit *debug_unit_of(struct debug_info *info, const Dwarf_Die *die);

/* Adds the ranges of a DIE; false if it has none (or lies at 0, where a linker puts what it drops).
 */
bool debug_ranges(struct debug_info *info, Dwarf_Die *die, uint32_t depth, uint32_t value,
                  struct spans *spans);

/* Attributes, of the DIE itself; NULL, 0 and false: it has none. */
const char *debug_string(struct debug_info *info, Dwarf_Die *die, unsigned name);
unsigned debug_number(struct debug_info *info, Dwarf_Die *die, unsigned name);
bool debug_reference(struct debug_info *info, Dwarf_Die *die, unsigned name, Dwarf_Die *out);

/* Name and start line of the function of a scope. */
void debug_name(struct debug_info *info, Dwarf_Die *die, struct symbol_line *line);
/* A path as the compiler wrote it, made absolute with the unit's directory. */
const char *debug_path(struct debug_info *info, struct debug_unit *unit, const char *path);
