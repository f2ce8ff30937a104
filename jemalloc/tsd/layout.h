/*
 * Where the members of a thread's data lie (tsd.h, MALLOC_TSD), by release, as
 * pointers of 8 bytes give them; and those of its profiling data (prof_tdata_s).
 *
 * Up to 5.2.1-361 all members are at fixed distances. Since 5.2.1-367 the counters
 * are behind members whose size depends on the configuration (page size, quantum):
 * they are searched. Layouts that existed for a few commits only are left out.
 */
#pragma once

#include "jemalloc/version.h"

#include <stddef.h>
#include <stdint.h>

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
