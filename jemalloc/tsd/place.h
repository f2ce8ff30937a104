/*
 * Where the thread data of this process lie, and the proof: a place fits if each
 * thread's bytes there are possible, and if some could hardly be anything else:
 * pointers to profiling data, which use functions of this jemalloc; keys and leaves of
 * its radix tree; counters between their last and their next event.
 */
#pragma once

#include "elf/thread_pointers.h"
#include "jemalloc/instance.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Where the members of a thread's data lie (tsd.h, MALLOC_TSD), by release, as
 * pointers of 8 bytes give them; and those of its profiling data (prof_tdata_s).
 *
 * Up to 5.2.1-361 all members are at fixed distances. Since 5.2.1-367 the counters
 * are behind members whose size depends on the configuration (page size, quantum):
 * they are searched. Layouts that existed for a few commits only are left out.
 */
enum {
    TSD_NONE = 0xffff,     /* this build has no such member */
    TSD_RTREE_BYTES = 384, /* rtree_ctx: 24 pairs of a key and a leaf */
    TSD_WINDOW = 8192,     /* limit of the size of what is read of a tsd */
};

/* The values of its state. */
struct tsd_states {
    uint8_t size; /* bytes of the member */
    uint8_t nominal_first, nominal_last, uninitialized;
    uint8_t minimal; /* has only freed; 0xff: no such state */
    uint8_t last;
};

struct tsd_layout {
    unsigned first, commits; /* the first with it: VERSION_NUMBER of a release, commits after it */
    const struct tsd_states *states;
    bool searched;   /* the counters; state is 8 bytes before them, rtree before that */
    bool has_limits; /* a limit follows each counter: the next event, or 0 */
    bool has_dalloc_events;
    bool may_sleep;        /* wait can have the value of the defect (activate.h) */
    bool has_tdata_states; /* 1 and 2 instead of a pointer: the thread is ending */
    uint16_t state, counters, rtree;
    uint16_t events; /* last and next event of allocation; then those of deallocation */
    uint16_t wait;   /* bytes until the next sample; TSD_NONE: tdata_wait */
    uint16_t tdata, iarena, arena;
    uint16_t tcache; /* a pointer: up to 4.5 */
    uint16_t tdata_table, tdata_active, tdata_expired, tdata_wait;
    uint16_t size; /* of what is read; without the searched counters */
};

/* All layouts, the newest first; those with the same start differ by configuration. */
extern const struct tsd_layout tsd_layouts[];
extern const size_t tsd_layout_count;

/* Returns the number of layouts of that version, from *first on; 0: unknown. */
size_t tsd_layouts_of(struct version version, const struct tsd_layout **first);

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
