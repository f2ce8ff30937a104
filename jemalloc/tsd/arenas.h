/*
 * The number of an arena, by its address: its index in jemalloc's array of arenas.
 * The array is found by its symbol, or by the code of "thread.arena"
 * (stripped/getters.h), and proven: all arenas of the process's threads are in it.
 */
#pragma once

#include "attach/target.h"
#include "jemalloc/facts.h"

enum { TSD_ARENAS_MAX = 4096 };

struct tsd_arenas {
    remote_addr *list; /* NULL: unknown */
    size_t count;
};

/* Finds the array that has each of these arenas; tsd_arenas_free releases it. */
bool tsd_arenas_find(struct tsd_arenas *arenas, const remote_addr *used, size_t count,
                     const struct fact_variables *variables, const struct instance *instance,
                     const struct target *target, struct memory *memory);
void tsd_arenas_free(struct tsd_arenas *arenas);

/* Returns the arena's number; -1: unknown. */
int tsd_arena_number(const struct tsd_arenas *arenas, remote_addr arena);
