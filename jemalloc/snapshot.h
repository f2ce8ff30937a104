/*
 * Takes the gauges and the heap profile of a process in one stop, as fast as
 * possible: for a process that is looked at repeatedly.
 */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/hooks.h"
#include "jemalloc/sink.h"
#include "jemalloc/stats.h"

/* Whether there is a profile, and if not, why. */
enum snapshot_profile {
    SNAPSHOT_PROFILED,
    SNAPSHOT_ABSENT,       /* built without profiling (config.prof) */
    SNAPSHOT_DISABLED,     /* profiling was not enabled at start (opt.prof) */
    SNAPSHOT_INACTIVE,     /* prof.active is false */
    SNAPSHOT_HOOKED,       /* a hook of the application for finished dumps would find no file */
    SNAPSHOT_EXTENT_HOOKS, /* extent hooks of the application would run in the call */
    SNAPSHOT_TOO_LARGE,    /* it did not fit into the sink: it is not taken again */
};

struct snapshot {
    bool known; /* build has been read */
    struct build build;
    bool too_large;
    /* of the last snapshot */
    struct stats_gauges gauges; /* only with config.stats */
    enum snapshot_profile profile;
};

/*
 * Takes one snapshot with two lists of calls in one stop: first state and gauges,
 * then the dump into sink, which is emptied first. The dump must wait for the
 * state, because a hook of the application could run in it.
 */
fault_code snapshot_take(struct snapshot *snapshot, struct injection *injection,
                         const struct instance *instance, struct hooks_consent *consent,
                         struct sink *sink, struct fault *fault);
