/* One refresh of top: reads the target in one hold and updates the model. */
#pragma once

#include "jemalloc/facts.h"
#include "jemalloc/snapshot.h"
#include "profile/name_cache.h"
#include "profile/sites.h"
#include "run/account.h"
#include "run/governor.h"
#include "run/leak/looks.h"
#include "run/readout.h"
#include "run/trends.h"

/* The state of a process after a refresh. */
struct top_model {
    const char *name; /* of the process */
    int pid;
    const char *version; /* of jemalloc; "": not known yet */
    struct trends trends;
    struct trends watched;     /* only the RSS: also between refreshes, if they are rare */
    bool has_stats;            /* its counts are known */
    const struct sites *sites; /* NULL: no profile; top_refresh.snapshot has the reason */
    bool missed;               /* the newest refresh failed; the rest is from the one before */
    uint64_t asked, interval;  /* nanoseconds between refreshes; 0: only one */
    bool reads;                /* from memory, without stopping a thread */
    uint64_t held, longest;    /* how long a thread was stopped, or, with reads, how long the read
                                * took: in the newest refresh, and at most */
    unsigned percent;          /* of the time that threads may be stopped */
    double share;              /* of the time that threads are stopped */
    uint64_t refreshes;        /* so far */
};

struct top_request {
    const struct samples_options *samples; /* the filter; must outlive the refreshes */
    uint64_t interval_ns;
    unsigned percent; /* of the time that threads may be stopped */
    bool no_inlines, debuginfod;
};

struct top_refresh {
    const struct samples_options *samples; /* the filter */
    struct attachment attachment;
    struct snapshot snapshot;
    bool counted;           /* account, or after a hold snapshot.gauges, is known */
    struct account account; /* of the newest count from memory */
    uint64_t count_ns;      /* how long it took */
    uint64_t counted_at;    /* when it ended, CLOCK_MONOTONIC ns */
    bool no_profile;        /* and never will be: only memory is read */
    struct sink sink;
    struct symbols_target place; /* for looking up names */
    struct name_cache names;
    struct deadline names_until; /* of a refresh: names that are not found by then are left out */
    struct sites sites;
    struct looks looks; /* if refreshes are reads: of as many of them as the sites have */
    bool looking;       /* looks are open */
    bool silent;        /* threads may allocate without being sampled */
    struct governor governor;
    uint64_t ended; /* the newest refresh, CLOCK_MONOTONIC ns */
    struct top_model model;
};

/* Call after top_refresh_open; the refresh must not move from then on. */
void top_refresh_init(struct top_refresh *refresh, const struct top_request *request);
void top_refresh_free(struct top_refresh *refresh);

/*
 * Opens the target as readout_open does. A target without profiling is not a
 * fault: its counts can be shown.
 */
fault_code top_refresh_open(struct top_refresh *refresh, const struct attach_request *request,
                            struct fault *fault);

/*
 * Makes the next refresh. After a transient failure, unless it is the first
 * refresh, returns FAULT_NONE with model.missed set, the cause in fault and the
 * former numbers. Any fault that is returned is final.
 */
fault_code top_refresh_run(struct top_refresh *refresh, struct fault *fault);
/*
 * Between refreshes: reads what needs no stop and no look at the profile, once in two
 * seconds at most. True if it has changed.
 */
bool top_refresh_glance(struct top_refresh *refresh);
/* Returns the earliest time for a refresh that is requested now (CLOCK_MONOTONIC, ns). */
uint64_t top_refresh_soonest(const struct top_refresh *refresh);
