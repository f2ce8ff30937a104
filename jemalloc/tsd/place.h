/*
 * Where the thread data of this process lie, and the proof: a place fits if each
 * thread's bytes there are possible, and if some could hardly be anything else:
 * pointers to profiling data, which use functions of this jemalloc; keys and leaves of
 * its radix tree; counters between their last and their next event.
 */
#pragma once

#include "elf/thread_pointers.h"
#include "elf/tls.h"
#include "jemalloc/instance.h"
#include "jemalloc/tsd/layout.h"

struct tsd_place {
    const struct tsd_layout *layout; /* NULL: not found */
    struct tls_block block;
    uint64_t at; /* of the tsd in the block; with a distance: from the thread pointer */
    uint32_t state, counters, rtree; /* offsets in the tsd */
    uint32_t size;                   /* bytes to be read */
};

/* What a place is searched with. */
struct tsd_search {
    const struct instance *instance;
    const struct modules *modules;
    struct memory *memory;
    const struct thread_pointers *pointers;
    struct version version; /* number 0: unknown */
    bool samples;           /* it is certain that profiling is enabled: opt.prof */
    int64_t offset;         /* of the counters from the thread pointer, if known; else 0 */
};

/* Finds the place. False: none fits, or several do; *why says so (static text). */
bool tsd_place_find(struct tsd_place *place, const struct tsd_search *search, const char **why);

/* Returns the address of a thread's tsd; 0: it has none. */
remote_addr tsd_place_of(const struct tsd_place *place, remote_addr pointer, struct memory *memory);

enum tsd_condition { TSD_NEW, TSD_MINIMAL, TSD_NOMINAL, TSD_ENDING };

/* The members of one thread's tsd. */
struct tsd_data {
    enum tsd_condition condition;
    uint64_t allocated, deallocated;
    bool has_wait;
    uint64_t wait;
    remote_addr tdata;              /* 0: none */
    bool tdata_active;              /* with tdata */
    remote_addr wait_at, active_at; /* 0: none */
};

/*
 * Takes a tsd at these bytes (place->size of them), which are at addr. False: they
 * cannot be one.
 */
bool tsd_data_take(struct tsd_data *data, const struct tsd_place *place,
                   const struct tsd_search *search, remote_addr addr, const unsigned char *bytes);

/* True if only the defect leaves that count. */
static inline bool tsd_wait_sleeps(uint64_t wait)
{
    return wait > INT64_MAX / 2;
}
