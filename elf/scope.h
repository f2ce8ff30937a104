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

/* Why the dynamic linker has loaded an object. */
enum scope_cause {
    SCOPE_UNKNOWN,   /* there is no list, or its order does not show it */
    SCOPE_NEEDED,    /* an object that is loaded needs it, or dlopen(3) has loaded it */
    SCOPE_PRELOADED, /* LD_PRELOAD, /etc/ld.so.preload or --preload names it */
};

/*
 * Tells by the order of loading why this module is loaded: preloaded libraries come
 * before the first one that the program needs (DT_NEEDED), whatever has become of the
 * environment and of the files. A library that the program needs first of all may have
 * been preloaded, too; that is SCOPE_NEEDED.
 */
enum scope_cause scope_cause_of(const struct modules *modules, struct memory *memory,
                                const struct module *module);
