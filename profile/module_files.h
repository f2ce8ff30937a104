/* The files that tell of a module's code: itself, and those that hold what strip took away. */
#pragma once

#include "profile/object.h"
#include "profile/symbols.h"

struct module_files {
    struct build_id build_id;  /* of the module; len 0: none */
    struct object *module;     /* NULL: could not be opened */
    struct object *mini;       /* its .gnu_debugdata */
    struct object *debug;      /* its separate debug file */
    struct object *supplement; /* what dwz has moved out of the debug file */
};

/* Opens what there is. Says why there is no module; err is an errno then, or 0. */
enum symbols_lack module_files_open(struct module_files *files,
                                    const struct symbol_mapping *mapping,
                                    const struct symbols_options *options, int *err);
void module_files_close(struct module_files *files);
