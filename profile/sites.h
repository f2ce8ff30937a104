/*
 * Allocation sites, followed from one profile of a process to the next: what
 * each holds, and how fast that grows. A site is the innermost calls of a
 * stack, by name; all stacks that begin with them are one.
 */
#pragma once

#include "profile/samples.h"

enum {
    SITE_CALLS = 4,     /* calls that make a site: more would split what is one to an operator */
    SITES_HISTORY = 16, /* profiles that growth is measured over */
};

/* What a site held at one time, bytes. */
struct site_size {
    int64_t bytes;
    double variance; /* from the sampling */
};

struct site {
    char *calls; /* names, innermost first, each with its NUL */
    size_t len;  /* bytes of them */
    uint32_t call_count;
    int64_t objects;
    struct site_size now, first; /* first: in the first profile */
    struct site_size past[SITES_HISTORY];
};

struct sites {
    struct site *list;
    size_t count, room;
    struct table table; /* of the list, by calls */
    uint64_t times[SITES_HISTORY], first_time;
    uint64_t rounds; /* profiles so far */
    struct amount bytes, objects;
    size_t stacks;
    uint64_t period;
};

/* How a site has grown, bytes; error: what the sampling alone may have made of it. */
struct site_growth {
    int64_t bytes;
    double per_second, error;
};

enum sites_order { SITES_BY_SIZE, SITES_BY_GROWTH };

void sites_init(struct sites *sites);
/*
 * Takes the next profile; time in nanoseconds. What a site has not got in it
 * counts as nothing; a site that has held nothing for SITES_HISTORY profiles is
 * forgotten, so that there are never more than the profiles have. False: out of
 * memory; then only sites_free is allowed.
 */
bool sites_update(struct sites *sites, const struct samples *samples, uint64_t time);
void sites_free(struct sites *sites);

/* Nanoseconds that growth is measured over; 0: there is one profile, or none. */
uint64_t sites_window(const struct sites *sites);
/* Nanoseconds from the first profile to the newest. */
uint64_t sites_time(const struct sites *sites);
/* Over that window. */
struct site_growth sites_growth(const struct sites *sites, const struct site *site);
/* Since the first profile. */
struct site_growth sites_growth_in_all(const struct sites *sites, const struct site *site);
/*
 * The sites in order, the largest or fastest growing first; the caller frees
 * the list. NULL: out of memory.
 */
const struct site **sites_sorted(const struct sites *sites, enum sites_order order);

/* The next name after that of a call, within one site. */
const char *site_next_call(const char *call);
