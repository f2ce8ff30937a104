/*
 * The addresses of one or two profiles as source locations, in the terms of
 * pprof's profile.proto: a location is a call, with one line for each function
 * that was inlined into it and one for the function itself.
 *
 * Two profiles share the functions, so that a difference is computed by names,
 * not by addresses, which change from one run to the next.
 */
#pragma once

#include "base/arena.h"
#include "base/table.h"
#include "profile/heap.h"
#include "profile/names/code_kind.h"
#include "profile/symbols/symbols.h"

struct function {
    const char *name;            /* demangled, or "module+0x1234" */
    const char *linkage;         /* the linker's name; "": same as name */
    const char *file;            /* "": unknown */
    unsigned start_line;         /* 0: unknown */
    uint32_t group;              /* index in groups: all functions that are shown with this name */
    enum code_kind kind, module; /* whose code it is, and that of its module */
};

struct location_line {
    uint32_t function;
    unsigned line; /* 0: unknown */
};

struct location {
    uint64_t address;      /* of the call: the return address minus one; 0: no code, see pseudo */
    uint32_t mapping;      /* index in mappings, or TABLE_NONE */
    uint32_t first, count; /* range in lines, innermost first */
    bool named;            /* a symbol was found */
};

struct location_mapping {
    remote_addr start, end;
    uint64_t offset;
    const char *path, *name;                               /* name: as it is shown */
    struct build_id build_id;                              /* len 0: unknown */
    enum code_kind kind;                                   /* CODE_OWN: names decide */
    bool has_functions, has_files, has_lines, has_inlines; /* known for at least one location */
};

struct locations {
    struct arena strings;
    struct function *functions;
    struct location_line *lines;
    struct location *list;
    struct location_mapping *mappings;
    const char **groups;       /* distinct names as they are shown: full ones, or short ones */
    uint32_t *group_functions; /* the first function of each group: its name is a full one */
    size_t function_count, line_count, count, mapping_count, group_count;
    size_t function_capacity, line_capacity, capacity, mapping_capacity, group_capacity,
        first_capacity;
    bool short_names; /* group functions by short_name: instances of a template, overloads */
    struct table function_table, group_table;
};

/*
 * Initializes the struct; one of zeros is not valid. Set short_names before the
 * first location is added.
 */
void locations_init(struct locations *locations);
/*
 * Adds a location for each address of the profile, in the profile's order; the
 * first one gets the number that locations->count had. False: out of memory.
 */
bool locations_add(struct locations *locations, const struct heap_profile *profile,
                   struct symbols *symbols);
/* Adds a location that stands for no code, such as "[truncated]". TABLE_NONE: out of memory. */
uint32_t locations_pseudo(struct locations *locations, const char *name);
/*
 * Adds a location that is another one without its innermost lines; they are
 * fewer than it has. TABLE_NONE: out of memory.
 */
uint32_t locations_add_outer(struct locations *locations, uint32_t number, uint32_t lines);
void locations_free(struct locations *locations);

/*
 * Returns the symbolizer of a profile. A file that was unlinked since it was
 * mapped is looked for under its name with " (deleted)": the file that has the
 * name itself now is another one, and its names would be wrong. NULL: out of
 * memory.
 */
struct symbols *locations_symbols(const struct heap_profile *profile,
                                  const struct symbols_options *options);

/*
 * The names of one process for a sequence of its profiles: each address is
 * looked up once, until the mapped files change.
 */

struct name_cache {
    struct symbols_options options; /* the data they point to must live as long as the cache */
    struct symbols *symbols;        /* NULL: none yet */
    struct name_file {
        remote_addr start, end;
        uint64_t offset;
        char *text; /* the line of the maps */
    } * files;      /* files that are mapped executable */
    size_t file_count;
};

/*
 * Returns the symbolizer for a profile: the same as for the last one, unless
 * other files are mapped now, or so many addresses have come and gone (code
 * made at run time) that it would grow forever. Owned by the cache, and valid
 * until the next call. NULL: out of memory.
 */
struct symbols *name_cache_symbols(struct name_cache *cache, const struct heap_profile *profile);
void name_cache_free(struct name_cache *cache);
