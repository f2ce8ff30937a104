/* Recent allocations by site: how many, how many of them are alive, how long the others lived. */
#pragma once

#include "profile/sites.h"
#include "run/recent.h"

/* The innermost calls of a stack, by name, as in struct site. */
struct recent_site {
    uint32_t calls[SITE_CALLS]; /* groups of the locations, innermost first */
    uint32_t call_count;
    size_t count, alive;   /* records */
    size_t lived;          /* of those that were released: with a known lifetime */
    uint64_t median_ns;    /* of these lifetimes; 0: none */
    uint64_t size, usable; /* bytes, of all records together */
};

struct recent_sites {
    struct recent_site *list; /* most records first */
    size_t count, capacity;
    uint32_t *samples;   /* for each stack of the list the sample that shows it; TABLE_NONE: none */
    uint32_t *of;        /* for each record its site; TABLE_NONE: a filter hides it */
    size_t shown, alive; /* records that no filter hides */
};

/* False: out of memory. Call recent_sites_free in every case. */
bool recent_sites_make(struct recent_sites *sites, const struct recent *recent,
                       const struct samples *samples);
void recent_sites_free(struct recent_sites *sites);
