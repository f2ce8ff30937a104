/*
 * Finds variables of jemalloc without symbols, by the functions that serve their
 * names in the tables of mallctl.
 *
 * A name of an option is served by a function that reads one variable and no
 * other (ctl.c, CTL_RO_NL_CGEN). prof.active and prof.thread_active_init are
 * served by a function that calls a getter or a setter (prof.c, prof_active_get,
 * prof_active_set). Both lock a mutex, so both use other variables, too. What is
 * looked for is the one byte that the setter reads and then writes, and that the
 * getter reads and does not write: the getter writes the mutex's flag `locked`,
 * and nobody writes an option.
 */
#pragma once

#include "elf/eh_frames.h"
#include "jemalloc/stripped/tables.h"

/* Addresses; 0: not found, or not certain, or this build has no profiling. */
struct globals {
    remote_addr opt_prof;
    remote_addr prof_active; /* prof_active up to 5.2.1, prof_active_state since 5.3.0 */
    remote_addr thread_init; /* prof_thread_active_init */
    remote_addr lg_sample;   /* lg_prof_sample */
    remote_addr prefix;      /* opt_prof_prefix */
};

void globals_find(struct globals *globals, const struct view *view, const struct eh_frames *frames,
                  const struct ctl_tables *tables);
