/*
 * Reads version and state of a jemalloc from the memory of its process, without
 * a call and without stopping it.
 *
 * The addresses are those of jemalloc's private variables (src/prof.c,
 * src/jemalloc.c). Only .symtab names them; without it some are found through the
 * functions of mallctl that use them (stripped/stripped.h). The version is a string
 * constant of the file. All of these are the same in all processes that map the
 * file. The values belong to one process and change over time.
 */
#pragma once

#include "jemalloc/instance.h"
#include "jemalloc/prof.h"

/* prof_active is named prof_active up to 5.2.1 and prof_active_state since 5.3.0. */
enum fact_variable {
    VARIABLE_OPT_PROF,
    VARIABLE_PROF_ACTIVE,
    VARIABLE_THREAD_INIT,
    VARIABLE_LG_SAMPLE,
    VARIABLE_PREFIX,
    VARIABLE_UNBIAS,  /* opt_prof_unbias, since 5.3.0 */
    VARIABLE_STACKS,  /* bt2gctx: the table of all stacks */
    VARIABLE_THREADS, /* tdatas: the tree of all threads' data */
    VARIABLE_COUNT
};

struct fact_variables {
    char version[VERSION_TEXT_MAX]; /* "": not found */
    struct {
        remote_addr address; /* 0: not found */
        uint64_t size;       /* bytes; 0: unknown */
    } at[VARIABLE_COUNT];
};

/* Finds the addresses; the others stay 0. Takes time in proportion to the size of the file. */
void facts_locate(struct fact_variables *variables, const struct instance *instance,
                  const struct modules *modules, const struct target *target,
                  struct memory *memory);

/* Reads the values; those that cannot be read, or that are not valid, stay unknown. */
void facts_read(const struct fact_variables *variables, struct memory *memory,
                struct prof_state *state);

/*
 * Finds jemalloc's version string, "5.3.0-0-g54eaed1d...", in len bytes of
 * constants. Returns 1 if it was found, 0 if not, -1 if there are two that differ
 * from each other, or one that differs from the text already in out.
 */
int facts_version(const char *bytes, size_t len, char *out, size_t size);
