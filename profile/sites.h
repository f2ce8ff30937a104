/*
 * Allocation sites, followed from one profile of a process to the next: the
 * memory that each holds, and how fast it grows. A site is the innermost calls
 * of the program's own code in a stack, by name, or the innermost of all in a
 * stack without own code; all stacks with the same ones are one site.
 */
#pragma once

#include "profile/samples.h"
#include "profile/verdict.h"

enum {
    SITE_CALLS = 4, /* calls that make a site: more would split sites that are one to an operator */
    SITES_HISTORY = 16, /* number of profiles over which growth is measured */
};

enum { SITE_PLACE_SIZE = 80 };

/* The bytes that a site held at one time. */
struct site_size {
    int64_t bytes;
    double variance;       /* from the sampling */
    double total_variance; /* of all bytes that it has allocated (opt.prof_accum); 0: unknown */
};

struct site {
    char *calls; /* names, innermost first, each with its NUL */
    size_t len;  /* bytes of them */
    uint32_t call_count;
    char place[SITE_PLACE_SIZE]; /* of the first call in its largest stack, "list.c:12"; "": unknown
                                  */
    bool placed;
    int64_t largest; /* bytes of that stack */
    int64_t objects;
    struct site_size now, first; /* first: at the first profile */
    struct site_size past[SITES_HISTORY];
    struct trend judged; /* with sites.evidence EVIDENCE_COUNTS */
};

struct sites {
    struct site *list;
    size_t count, capacity;
    struct table table; /* of the list, by calls */
    uint64_t times[SITES_HISTORY], first_time;
    uint64_t rounds; /* number of profiles so far */
    struct amount bytes, objects;
    size_t stacks;
    size_t tests; /* sites that share the error of their intervals (profile/trend.h) */
    uint64_t period;
    enum trend_evidence evidence; /* of the growth */
    bool awaits_counts; /* samples alone make no verdict of growth: exact counts are to come */
};

/* The growth of a site in bytes, with its interval and verdict. */
struct site_growth {
    int64_t bytes;
    double per_second, error; /* error: half of the interval */
    struct trend trend;
};

enum sites_order { SITES_BY_SIZE, SITES_BY_GROWTH };

void sites_init(struct sites *sites);
/*
 * Adds the next profile; time in nanoseconds. A site that is not in it has zero
 * bytes; a site that has held nothing for SITES_HISTORY profiles is dropped, so
 * that there are never more sites than in these profiles. False: out of memory;
 * then only sites_free is allowed.
 */
bool sites_update(struct sites *sites, const struct samples *samples, uint64_t time);
void sites_free(struct sites *sites);

/*
 * Sets site_of[stack of a sample] to the number of the site that has its calls. Others keep their
 * value: there is no such site, or the stack is filtered. Valid until the next update.
 */
void sites_number(const struct sites *sites, const struct samples *samples, uint32_t *site_of);
/*
 * Bounds the growth of all sites until the next update, by a verdict on them as stacks
 * (profile/judged.h).
 */
void sites_judge(struct sites *sites, const struct verdict *verdict);

/* Returns the nanoseconds over which growth is measured; 0: at most one profile. */
uint64_t sites_window(const struct sites *sites);
/* Returns the nanoseconds from the first profile to the newest. */
uint64_t sites_time(const struct sites *sites);
/* Returns the growth over that window. Slow: for the sites that are shown. */
struct site_growth sites_growth(const struct sites *sites, const struct site *site);
/* Returns the growth since the first profile, in bytes. */
int64_t site_growth_in_all(const struct site *site);
/*
 * Returns the sites sorted, the largest or the fastest growing first; the
 * caller frees the list. NULL: out of memory.
 */
const struct site **sites_sorted(const struct sites *sites, enum sites_order order);

/* Returns the name after that of a call, within one site. */
const char *site_next_call(const char *call);
