/*
 * What a process that is looked at again and again tells in one stop: its
 * gauges and its heap profile, as fast as they can be had.
 */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/hooks.h"
#include "jemalloc/sink.h"
#include "jemalloc/stats.h"

/* Does it give a profile, and if not, why? */
enum snapshot_profile {
    SNAPSHOT_PROFILED,
    SNAPSHOT_ABSENT,   /* built without profiling (config.prof) */
    SNAPSHOT_DISABLED, /* profiling was not enabled at start (opt.prof) */
    SNAPSHOT_INACTIVE, /* prof.active is false */
    SNAPSHOT_HOOKED, /* the application has a hook for finished dumps, which streaming would deceive
                      */
    SNAPSHOT_EXTENT_HOOKS, /* the application has extent hooks, which would run in the call */
    SNAPSHOT_TOO_LARGE,    /* it did not fit into the sink: not asked for again */
};

struct snapshot {
    bool known; /* build has been read */
    struct build build;
    bool too_large;
    size_t bytes; /* of the last profile */
    /* of the last look */
    struct stats_gauges gauges; /* with config.stats */
    enum snapshot_profile profile;
};

/*
 * One look, in two lists of calls within one stop: state and gauges, then the
 * dump into sink, which is emptied before. The dump must not be made before the
 * state is known: a hook of the application's would run in it.
 */
fault_code snapshot_take(struct snapshot *snapshot, struct injection *injection,
                         const struct instance *instance, struct hooks_consent *consent,
                         struct sink *sink, struct fault *fault);
