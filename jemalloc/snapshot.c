#include "jemalloc/snapshot.h"
#include "jemalloc/dump.h"
#include "jemalloc/faults.h"

#include <stdio.h>
#include <string.h>

/* Constants are read only once; after that the list starts with OP_ACTIVE. */
enum { OP_VERSION, OP_CONFIG_PROF, OP_OPT_PROF, OP_CONFIG_STATS, OP_ACTIVE, OP_HOOK, OP_GAUGES };
enum { OP_COUNT = OP_GAUGES + STATS_GAUGE_OPS };

static const struct ctl_op look_ops[OP_GAUGES] = {
    [OP_VERSION] = {.name = "version", .type = CTL_STRING},
    [OP_CONFIG_PROF] = {.name = "config.prof", .type = CTL_BOOL},
    [OP_OPT_PROF] = {.name = "opt.prof", .type = CTL_BOOL},
    [OP_CONFIG_STATS] = {.name = "config.stats", .type = CTL_BOOL},
    [OP_ACTIVE] = {.name = "prof.active", .type = CTL_BOOL},
    [OP_HOOK] = {.name = "experimental.hooks.prof_dump", .type = CTL_POINTER},
};

static bool snapshot_has_stats(const struct snapshot *snapshot)
{
    return snapshot->build.config_stats == FACT_YES;
}

static enum snapshot_profile judge_profile(const struct snapshot *snapshot,
                                           const struct ctl_op *ops)
{
    if (snapshot->build.config_prof != FACT_YES)
        return SNAPSHOT_ABSENT;
    if (snapshot->build.opt_prof != FACT_YES)
        return SNAPSHOT_DISABLED;
    if (!ctl_is_true(&ops[OP_ACTIVE]))
        return SNAPSHOT_INACTIVE;
    if (ctl_is_true(&ops[OP_HOOK]))
        return SNAPSHOT_HOOKED;
    return snapshot->too_large ? SNAPSHOT_TOO_LARGE : SNAPSHOT_PROFILED;
}

static fault_code read_state(struct snapshot *snapshot, struct injection *injection,
                             const struct instance *instance, struct fault *fault)
{
    struct ctl_op ops[OP_COUNT];
    size_t first = snapshot->known ? OP_ACTIVE : 0;
    size_t end = snapshot->known && !snapshot_has_stats(snapshot) ? OP_GAUGES : OP_COUNT;
    fault_code rc;

    memcpy(ops, look_ops, sizeof look_ops);
    stats_gauge_ops(ops + OP_GAUGES);
    rc = ctl_run(injection, instance, ops + first, end - first, NULL, fault);
    if (rc == FAULT_NONE && !snapshot->known)
        rc = build_take(&snapshot->build, ops, OP_ACTIVE, fault);
    if (rc == FAULT_NONE)
        snapshot->known = true;
    if (rc == FAULT_NONE && snapshot_has_stats(snapshot))
        rc = stats_take_gauges(&snapshot->gauges, ops + OP_GAUGES, fault);
    if (rc == FAULT_NONE)
        snapshot->profile = judge_profile(snapshot, ops);
    ctl_free(ops + first, end - first);
    return rc;
}

fault_code snapshot_take(struct snapshot *snapshot, struct injection *injection,
                         const struct instance *instance, struct hooks_consent *consent,
                         struct sink *sink, struct fault *fault)
{
    fault_code rc = read_state(snapshot, injection, instance, fault);

    sink->len = 0;
    if (rc != FAULT_NONE || snapshot->profile != SNAPSHOT_PROFILED)
        return rc;
    rc = hooks_check(injection, instance, HOOKS_AUTOMATIC, consent, NULL, fault);
    if (rc == FAULT_HOOKS)
        snapshot->profile = SNAPSHOT_EXTENT_HOOKS;
    if (rc != FAULT_NONE)
        return rc == FAULT_HOOKS ? FAULT_NONE : rc;
    rc = dump_stream(injection, instance, sink, fault);
    if (rc != FAULT_TOO_LARGE)
        return rc;
    snapshot->too_large = true;
    snapshot->profile = SNAPSHOT_TOO_LARGE;
    return FAULT_NONE;
}
