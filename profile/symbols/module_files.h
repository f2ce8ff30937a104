/*
 * The files that describe a module's code: the module itself, and those that
 * contain the parts that strip removed.
 */
#pragma once

#include "profile/symbols/object.h"
#include "profile/symbols/symbols.h"

struct module_files {
    struct build_id build_id;  /* of the module; len 0: none */
    struct object *module;     /* NULL: could not be opened */
    struct object *mini;       /* its .gnu_debugdata */
    struct object *debug;      /* its separate debug file */
    struct object *supplement; /* the part of the debug file that dwz has moved out */
};

/* Opens the files that exist. Returns why there is no module; *err is then an errno, or 0. */
enum symbols_lack module_files_open(struct module_files *files,
                                    const struct symbol_mapping *mapping,
                                    const struct symbols_options *options, int *err);
void module_files_close(struct module_files *files);

/*
 * Opens a regular file by its path in the root of the options; links do not lead
 * out of it. Returns a file descriptor, which the caller closes, or -errno.
 */
int module_files_open_path(const struct symbols_options *options, const char *path);

/*
 * Opens a file of split DWARF, in the root of the target or of the options: `name` of
 * the directory dir where the compiler was, then beside the module; name NULL: the
 * module's package, its path with .dwp. attempt counts the places from 0 on. Returns a
 * file descriptor, or -errno; -EDOM: there is no other place.
 */
int module_files_open_split(const char *module, const struct symbols_options *options,
                            const char *dir, const char *name, unsigned attempt);
