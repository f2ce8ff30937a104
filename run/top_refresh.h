/* One refresh of top: a look at the target in one hold, and the model brought up to date by it. */
#pragma once

#include "jemalloc/snapshot.h"
#include "profile/name_cache.h"
#include "profile/sites.h"
#include "run/attachment.h"
#include "run/governor.h"
#include "run/trends.h"

/* What is known of a process after a refresh. */
struct top_model {
    const char *name; /* of the process */
    int pid;
    const char *version; /* of jemalloc; "": not known yet */
    struct trends trends;
    bool has_stats;            /* jemalloc has gauges (config.stats) */
    const struct sites *sites; /* NULL: there is no profile; top_refresh.snapshot tells why */
    bool missed;               /* the newest refresh failed; the rest is of the one before */
    uint64_t asked, interval;  /* nanoseconds between refreshes; 0: there is one only */
    uint64_t held, longest;    /* how long a thread was held: in the newest refresh, and at most */
    unsigned percent;          /* of the time that threads may be held */
    double share;              /* of the time that threads are held */
    uint64_t refreshes;        /* so far */
};

struct top_request {
    const struct samples_options *samples; /* the filter; must outlive the refreshes */
    uint64_t interval_ns;
    unsigned percent; /* of the time that threads may be held */
    bool no_inlines, debuginfod;
};

struct top_refresh {
    const struct samples_options *samples; /* the filter */
    struct attachment attachment;
    struct snapshot snapshot;
    struct sink sink;
    struct symbols_target place; /* where names are looked up */
    struct name_cache names;
    struct sites sites;
    struct governor governor;
    struct top_model model;
};

/* When attachment has been opened. The refresh must not move. */
void top_refresh_init(struct top_refresh *refresh, const struct top_request *request);
void top_refresh_free(struct top_refresh *refresh);

/*
 * Makes the next one. Where only this one has failed, and there was one before,
 * it returns FAULT_NONE with model.missed set and the cause in fault, and the
 * numbers are the former ones. Any fault that is returned is the end.
 */
fault_code top_refresh_run(struct top_refresh *refresh, struct fault *fault);
