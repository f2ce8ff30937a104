/*
 * What a jemalloc's own memory tells about it, without a call and without
 * stopping anything.
 *
 * The addresses are those of its private variables, which only .symtab names
 * (jemalloc: src/prof.c, src/jemalloc.c); the version is a string constant of
 * its file. Both are the same for all processes that map the file; the values
 * belong to one process and one moment.
 */
#pragma once

#include "jemalloc/instance.h"
#include "jemalloc/prof.h"

enum fact { FACT_UNKNOWN, FACT_NO, FACT_YES };

/* The two names of prof.active: prof_active up to 5.2.1, prof_active_state since 5.3.0. */
enum fact_place { PLACE_OPT_PROF, PLACE_ACTIVE, PLACE_THREAD_INIT, PLACE_LG_SAMPLE, PLACE_PREFIX };
enum { PLACE_COUNT = PLACE_PREFIX + 1 };

struct fact_places {
    char version[128]; /* "": not found */
    struct {
        remote_addr address; /* 0: not found */
        uint64_t size;       /* bytes */
    } at[PLACE_COUNT];
};

struct facts {
    char version[128]; /* "": unknown */
    enum fact compiled_in, enabled, active, thread_active_init, stats;
    bool lg_sample_known, prefix_known;
    uint64_t lg_sample; /* a sample every 2^n bytes on average */
    char prefix[4100];
};

/* Looks for the addresses; what cannot be found stays 0. Costs time in proportion to the file. */
void facts_locate(struct fact_places *places, const struct instance *instance,
                  const struct modules *modules, const struct target *target,
                  struct memory *memory);

/* Reads what stands there now; what cannot be read, or is no such value, stays unknown. */
void facts_read(const struct fact_places *places, struct memory *memory, struct facts *facts);

/* The same facts from a call's answer. */
void facts_of_state(const struct prof_state *state, struct facts *facts);

/* True if nothing that matters to an operator is unknown. */
bool facts_complete(const struct facts *facts);

/*
 * Finds jemalloc's version string, "5.3.0-0-g54eaed1d...", in len bytes of a
 * file's constants. Returns 1 if it is there, 0 if not, -1 if there are two
 * that differ from each other or from what out holds already.
 */
int facts_version(const char *bytes, size_t len, char *out, size_t size);
