/* One refresh of top: reads the target and updates the model. */
#pragma once

#include "jemalloc/facts.h"
#include "profile/locations.h"
#include "profile/sites.h"
#include "run/access.h"
#include "run/account.h"
#include "run/leak/looks.h"
#include "run/trends.h"

/* Whether there is a profile, and if not, why. */
enum top_profile {
    TOP_PROFILED,
    TOP_ABSENT,       /* built without profiling (config.prof) */
    TOP_DISABLED,     /* profiling was not enabled at start (opt.prof) */
    TOP_INACTIVE,     /* prof.active is false */
    TOP_HOOKED,       /* a hook of the application for finished dumps would find no file */
    TOP_EXTENT_HOOKS, /* extent hooks of the application would run in the call */
    TOP_TOO_LARGE,    /* it has more than 256 MiB: it is not taken again */
};

/* The state of a process after a refresh. */
struct top_model {
    const char *name; /* of the process */
    int pid;
    const char *version; /* of jemalloc; "": not known yet */
    struct trends trends;
    struct trends watched;     /* only the RSS: also between refreshes, if they are rare */
    bool has_stats;            /* its counts are known */
    const struct sites *sites; /* NULL: no profile; top_refresh.profile has the reason */
    bool missed;               /* the newest refresh failed; the rest is from the one before */
    uint64_t asked, interval;  /* nanoseconds between refreshes; 0: only one */
    bool reads;                /* the newest refresh has stopped no thread */
    uint64_t held, longest;    /* how long a thread was stopped, or, with reads, how long the read
                                * took: in the newest refresh, and at most */
    uint64_t refreshes;        /* so far */
};

struct top_request {
    const struct samples_options *samples; /* the filter; must outlive the refreshes */
    uint64_t interval_ns;
    bool no_inlines, debuginfod;
};

struct top_refresh {
    const struct samples_options *samples; /* the filter */
    struct attachment attachment;
    struct build build;
    enum top_profile profile;
    struct capture capture;
    bool counted;                /* account is known */
    struct account account;      /* of the newest count */
    uint64_t count_ns;           /* how long it took */
    uint64_t counted_at;         /* when it ended, CLOCK_MONOTONIC ns */
    bool no_profile;             /* and never will be */
    bool too_large;              /* the profile does not fit: it is not taken again */
    struct symbols_target place; /* for looking up names */
    struct name_cache names;
    struct deadline names_until; /* of a refresh: names that are not found by then are left out */
    struct sites sites;
    struct looks looks; /* if refreshes are reads: of as many of them as the sites have */
    bool looking;       /* looks are open */
    bool silent;        /* threads may allocate without being sampled */
    uint64_t cost;      /* of the newest refresh that stopped threads, ns */
    uint64_t ended;     /* the newest refresh, CLOCK_MONOTONIC ns */
    struct top_model model;
};

/* Call after top_refresh_open; the refresh must not move from then on. */
void top_refresh_init(struct top_refresh *refresh, const struct top_request *request);
void top_refresh_free(struct top_refresh *refresh);

/*
 * Opens the target as access_open does. A target without profiling is not a
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
