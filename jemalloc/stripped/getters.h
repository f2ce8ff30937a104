/*
 * Finds the variables that the function behind "thread.arena" refers to, in any build, stripped or
 * not: one of them is the array of pointers to arenas, or the pointer to it.
 */
#pragma once

#include "jemalloc/instance.h"

enum { GETTER_VARIABLES = 64 };

/* A few addresses of which at least one is right, if any: the data must tell which. */
struct getter_variables {
    remote_addr list[GETTER_VARIABLES];
    size_t count;
};

/* Fills *arenas, the same in all processes that map the file; empty if it is not understood. */
void getters_find_arenas(struct getter_variables *arenas, const struct instance *instance,
                         const struct target *target, struct memory *memory);
