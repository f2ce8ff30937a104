/*
 * What a name means in a dynamically linked target: the first object in the
 * dynamic linker's list that defines it (the global scope in the order of
 * loading: the program, what is preloaded, what it needs; SysV ABI, "Shared
 * Object Dependencies").
 */
#pragma once

#include "elf/image.h"
#include "elf/modules.h"

/*
 * The module that the function is taken from, which the list of modules owns;
 * NULL: no object defines it, or there is no list (a static program).
 */
const struct module *scope_find(const struct modules *modules, struct memory *memory,
                                const char *function);
