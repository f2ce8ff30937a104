/*
 * The definition of a name in a dynamically linked target: the first object in
 * the dynamic linker's list that defines it (the global scope in the order of
 * loading: the program, preloaded libraries, needed libraries; SysV ABI,
 * "Shared Object Dependencies").
 */
#pragma once

#include "elf/image.h"
#include "elf/modules.h"

/*
 * Returns the module that provides the function, owned by the list of modules.
 * NULL: no object defines it, or there is no list (a static program).
 */
const struct module *scope_find(const struct modules *modules, struct memory *memory,
                                const char *function);
