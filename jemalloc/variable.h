/* Finds public variables of jemalloc in a target, under its prefix: malloc_conf, malloc_message. */
#pragma once

#include "jemalloc/instance.h"

/*
 * Returns the address of the pointer variable <prefix>name; 0 if it is not found.
 * A definition in the program overrides the library's. So the dynamic symbols of
 * the main program are searched first, then those of the instance's module, then
 * that module's .symtab.
 */
remote_addr variable_find(const struct instance *instance, const char *name,
                          const struct modules *modules, const struct target *target,
                          struct memory *memory);

/* Returns the address of the C library's environ, in any module; 0 if it is not found. */
remote_addr variable_find_environ(const struct instance *instance, const struct modules *modules,
                                  const struct target *target, struct memory *memory);

/* Returns the value of the pointer variable at address; 0 if address is 0 or unreadable. */
remote_addr variable_value(remote_addr address, struct memory *memory);
