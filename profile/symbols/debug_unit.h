/* Internal parts of debug_info.h: its files and their compilation units. */
#pragma once

#include "base/table.h"
#include "profile/symbols/debug_info.h"
#include "profile/symbols/libdw.h"
#include "profile/symbols/spans.h"

/* A function or an inlined call that has code. */
struct debug_scope {
    void *die;       /* Dwarf_Die.addr */
    uint32_t parent; /* in scopes; SPANS_NONE: a function */
};

/* A namespace, class or function whose name is part of the names of the functions in it. */
struct debug_container {
    void *die;
    uint32_t parent; /* in containers, or SPANS_NONE */
};

/* Functions from this DIE on belong to this container. */
struct debug_place {
    void *die;
    uint32_t container;
};

/*
 * A unit is needed for a while: its records are read, walked, and freed when
 * other units need the memory. Only its offsets and ranges are kept.
 */
struct debug_unit {
    Dwarf_Die die;               /* valid while it is ready */
    Dwarf_Off start, first, end; /* offsets in .debug_info, of the header, of the DIE */
    bool supplement;             /* it is in the supplementary file */
    struct debug_split *split;   /* the file that it is in, if it is a split unit */
    struct debug_split *body;    /* of a skeleton: the functions; NULL: none, or not open */
    bool missed;                 /* its split file is missing */
    bool body_sought;            /* since the units were freed the last time */
    bool ranged;                 /* its own DIE gives the range of its code */
    bool loaded;                 /* its bytes have been read */
    bool ready, walked, lined;
    uint64_t items; /* part of items_left that its walk has used */
    struct debug_scope *scopes;
    size_t scope_count, scope_capacity;
    struct spans spans; /* of scopes */
    struct debug_container *containers;
    size_t container_count, container_capacity;
    struct debug_place *places; /* sorted by die */
    size_t place_count, place_capacity;
};

struct debug_function {
    void *die;
    struct symbol_line line; /* without file and line */
};

struct debug_bytes {
    const unsigned char *at;
    uint64_t len;
};

/* The module's own file, the supplement, or a split file. */
struct debug_file {
    bool split; /* its sections are those of a split file */
    struct object *object;
    Elf *elf;
    Dwarf *dwarf;
    const unsigned char *info; /* .debug_info, valid as long as elf; NULL: no unit is in it */
    uint64_t offset;           /* of .debug_info, if read unit by unit; 0: read completely */
    uint64_t size;             /* of .debug_info */
    uint64_t unpacked;         /* bytes that its compressed sections take in memory */
};

/*
 * The .dwo file of a skeleton unit: the functions and names. The lines, the addresses
 * and, in DWARF 4, the ranges are in the module.
 */
struct debug_split {
    struct object *object;
    struct debug_file file;
    struct debug_unit unit; /* of `file` */
    struct debug_unit *skeleton;
    struct debug_bytes addresses; /* of the module, from the skeleton's base on */
    struct debug_bytes ranges;    /* .debug_ranges of the module, or .debug_rnglists.dwo */
    uint64_t base;                /* of relative ranges */
    unsigned version;             /* of DWARF */
};

struct debug_info {
    struct libdw lib;
    const struct debug_files *files; /* opens split files; NULL: none are opened */
    struct debug_split **splits;     /* those that are open */
    size_t split_count, split_capacity;
    uint64_t split_left;     /* bytes that may still be read or unpacked of split files */
    uint64_t split_unpacked; /* bytes that those that are open have unpacked */
    struct debug_missing missing;
    struct debug_file own, supplement;
    struct debug_unit *units; /* sorted by offset; those of the supplement last */
    size_t own_count, unit_count, unit_capacity;
    struct spans index; /* of units */
    struct spans rest;  /* of units that do not give the range of their code */
    bool rest_done;
    uint64_t budget;     /* DIEs and ranges that may still be read: no honest file has more */
    uint64_t items_left; /* items of 16 to 24 bytes that may still be kept */
    uint64_t held;       /* approximate bytes that the units use */
    bool no_memory;      /* something is missing for lack of memory */
    uint64_t reads_left; /* bytes of units that may still be read; then none is freed any more */
    struct table function_table, path_table;
    struct debug_function *functions;
    size_t function_count, function_capacity;
    const char **paths; /* distinct paths */
    size_t path_count, path_capacity;
    struct arena *arena;
};

/* False: libdw does not accept the file, or out of memory. */
bool debug_file_open(struct debug_info *info, struct debug_file *file, struct object *object);
/* Finds the units of an open file. */
void debug_file_units(struct debug_info *info, struct debug_file *file);
void debug_file_close(struct debug_info *info, struct debug_file *file);

/* Makes a unit's bytes and its DIE valid until debug_trim_units. False: they cannot be read. */
bool debug_unit_load(struct debug_info *info, struct debug_unit *unit);
bool debug_unit_ready(struct debug_info *info, struct debug_unit *unit);
/*
 * Frees all units if they use too much memory: each Dwarf_Die, each address in
 * .debug_info and all other data from libdw is then invalid.
 */
void debug_trim_units(struct debug_info *info);

/*
 * Walks the DIEs of a unit once. False: it is not ready. Items for which there
 * was no memory are missing.
 */
bool debug_unit_walk(struct debug_info *info, struct debug_unit *unit);
/* Frees the data that the walk has made. */
void debug_unit_free(struct debug_unit *unit);
/* Returns the unit that contains an address in .debug_info (Dwarf_Die.addr), or NULL. */
struct debug_unit *debug_unit_of(struct debug_info *info, const void *at);

/*
 * Adds the ranges of a DIE. False: it has none, or is at 0, the address that a
 * linker gives to dropped code.
 */
bool debug_ranges(struct debug_info *info, Dwarf_Die *die, uint32_t depth, uint32_t value,
                  struct spans *spans);

/* Adds a range that is not empty. False: no more are kept. */
bool debug_add_range(struct debug_info *info, struct span span, struct spans *spans);

/* Attributes of the DIE itself; NULL, 0 or false: it does not have the attribute. */
/* The text is in a section that stays, or in .debug_info (debug_keep in debug_name.c). */
const char *debug_string(struct debug_info *info, Dwarf_Die *die, unsigned name);
unsigned debug_number(struct debug_info *info, Dwarf_Die *die, unsigned name);

/* Returns the data of the first section with a name, unpacked; of length 0: there is none. */
struct debug_bytes debug_section(const struct debug_info *info, const struct debug_file *file,
                                 const char *name);
/*
 * Returns the unit with the functions of a unit: itself, or the split unit that
 * belongs to it. If that is missing, notes it and returns the unit.
 */
struct debug_unit *debug_unit_body(struct debug_info *info, struct debug_unit *unit);
/* Frees all split files: what is known of their DIEs as well. */
void debug_splits_free(struct debug_info *info);
/* Does the same as debug_ranges for a DIE of a split unit. */
bool debug_split_ranges(struct debug_info *info, const struct debug_split *split, Dwarf_Die *die,
                        struct span span, struct spans *spans);

/* Finds name and start line of the function of a scope. */
void debug_name(struct debug_info *info, Dwarf_Die *die, struct symbol_line *line);
/* Makes a path of the compiler absolute with the directory of the unit, which is ready. */
const char *debug_path(struct debug_info *info, struct debug_unit *unit, const char *path);
