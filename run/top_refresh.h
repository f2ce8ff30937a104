/* One refresh of top: a look at the target in one hold, and the model brought up to date by it. */
#pragma once

#include "cli/output/top_view.h"
#include "jemalloc/snapshot.h"
#include "profile/name_cache.h"
#include "run/attachment.h"
#include "run/governor.h"

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
    char missed[512];
};

/* When attachment has been opened. The refresh must not move. */
void top_refresh_init(struct top_refresh *refresh, const struct options *options,
                      const struct samples_options *samples);
void top_refresh_free(struct top_refresh *refresh);

/*
 * Makes the next one. Where only this one has failed, and there was one before,
 * model.missed has the cause and the numbers are the former ones. Any fault
 * that is returned is the end.
 */
fault_code top_refresh_run(struct top_refresh *refresh, struct fault *fault);
