/* jemalloc's public variables in a target: malloc_conf and malloc_message, under its prefix. */
#pragma once

#include "jemalloc/instance.h"

/*
 * The address of the pointer variable <prefix>name; 0: it is not to be found.
 * A program that defines it overrides the library's own, so the dynamic
 * symbols of the main program are asked first, then those of the instance's
 * module, then that module's .symtab.
 */
remote_addr variable_find(const struct instance *instance, const char *name,
                          const struct modules *modules, const struct target *target,
                          struct memory *memory);

/* The same of the C library's environ, wherever it is defined. */
remote_addr variable_find_environ(const struct instance *instance, const struct modules *modules,
                                  const struct target *target, struct memory *memory);

/* What the pointer variable at address holds; 0 also if address is 0 or cannot be read. */
remote_addr variable_value(remote_addr address, struct memory *memory);
