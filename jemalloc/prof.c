#include "jemalloc/prof.h"
#include "jemalloc/faults.h"

#include <stdio.h>
#include <string.h>

enum { OP_VERSION, OP_CONFIG_PROF, OP_OPT_PROF, OP_ACTIVE, OP_THREAD_INIT, OP_LG_SAMPLE };
enum { OP_PREFIX = OP_LG_SAMPLE + 1, OP_CONFIG_STATS, OP_COUNT };

/* Without thread.prof.*: up to 5.2.1 even reading it crashes a target with prof:false. */
static const struct ctl_op state_ops[OP_COUNT] = {
    [OP_VERSION] = {.name = "version", .type = CTL_STRING},
    [OP_CONFIG_PROF] = {.name = "config.prof", .type = CTL_BOOL},
    [OP_OPT_PROF] = {.name = "opt.prof", .type = CTL_BOOL},
    [OP_ACTIVE] = {.name = "prof.active", .type = CTL_BOOL},
    [OP_THREAD_INIT] = {.name = "prof.thread_active_init", .type = CTL_BOOL},
    [OP_LG_SAMPLE] = {.name = "prof.lg_sample", .type = CTL_SIZE},
    [OP_PREFIX] = {.name = "opt.prof_prefix", .type = CTL_STRING},
    [OP_CONFIG_STATS] = {.name = "config.stats", .type = CTL_BOOL},
};

static void copy_text(char *out, size_t size, const struct ctl_op *op)
{
    snprintf(out, size, "%s", op->text ? op->text : "");
}

fault_code prof_read(struct injection *injection, const struct instance *instance,
                     struct prof_state *state, struct fault *fault)
{
    struct ctl_op ops[OP_COUNT];
    fault_code rc;

    memcpy(ops, state_ops, sizeof ops);
    memset(state, 0, sizeof *state);
    rc = ctl_run(injection, instance, ops, OP_COUNT, NULL, fault);
    if (rc == FAULT_NONE)
        rc = build_take(&state->build, ops, OP_COUNT, fault);
    if (rc == FAULT_NONE) {
        copy_text(state->prefix, sizeof state->prefix, &ops[OP_PREFIX]);
        state->prof_active = fact_of(ctl_is_true(&ops[OP_ACTIVE]));
        state->thread_active_init = fact_of(ctl_is_true(&ops[OP_THREAD_INIT]));
        state->lg_sample = ops[OP_LG_SAMPLE].rc == 0 ? ops[OP_LG_SAMPLE].value : 0;
        state->lg_sample_known = state->prefix_known = true;
    }
    ctl_free(ops, OP_COUNT);
    return rc;
}

enum prof_verdict prof_judge(const struct prof_state *state)
{
    const struct build *build = &state->build;
    uint64_t lg_sample = state->lg_sample_known ? state->lg_sample : PROF_LG_DEFAULT;

    if (build->config_prof == FACT_NO)
        return PROF_ABSENT;
    if (build->opt_prof == FACT_NO) /* whether or not it is compiled in */
        return PROF_DISABLED;
    if (build->opt_prof != FACT_YES || state->prof_active == FACT_UNKNOWN)
        return PROF_UNKNOWN;
    if (lg_sample <= PROF_LG_DENSE)
        return PROF_DENSE;
    if (lg_sample >= PROF_LG_SPARSE)
        return PROF_SPARSE;
    if (state->prof_active == FACT_NO)
        return PROF_INACTIVE;
    return state->thread_active_init == FACT_NO ? PROF_OLD_THREADS : PROF_READY;
}

fault_code prof_active_read(struct injection *injection, const struct instance *instance,
                            bool *active, struct fault *fault)
{
    struct ctl_op op = {.name = "prof.active", .type = CTL_BOOL};
    fault_code rc = ctl_run(injection, instance, &op, 1, NULL, fault);

    if (rc == FAULT_NONE && op.rc != 0)
        rc = fault_set(fault, FAULT_CTL_REFUSED, op.rc, "mallctl", "prof.active");
    *active = rc == FAULT_NONE && ctl_is_true(&op);
    return rc;
}

/* Writes and reads back in one list of calls. */
static fault_code prof_active_write(struct injection *injection, const struct instance *instance,
                                    bool active, struct fault *fault)
{
    struct ctl_op ops[] = {
        {.name = "prof.active", .type = CTL_BOOL, .writes = true, .new_value = active},
        {.name = "prof.active", .type = CTL_BOOL},
    };
    fault_code rc = ctl_run(injection, instance, ops, ARRAY_LEN(ops), NULL, fault);

    if (rc != FAULT_NONE)
        return rc;
    if (ops[0].rc != 0)
        return fault_set(fault, FAULT_CTL_REFUSED, ops[0].rc, "mallctl", "prof.active");
    if (ops[1].rc != 0 || ctl_is_true(&ops[1]) != active)
        return fault_set(fault, FAULT_CTL_REFUSED, ops[1].rc, "mallctl",
                         "prof.active, which still reads %s", ops[1].value ? "true" : "false");
    return FAULT_NONE;
}

fault_code prof_switch(struct injection *injection, const struct instance *instance, bool active,
                       struct prof_state *former, struct fault *fault)
{
    fault_code rc = prof_read(injection, instance, former, fault);

    if (rc == FAULT_NONE)
        rc = build_can_profile(&former->build, fault);
    if (rc != FAULT_NONE || prof_is_active(former) == active)
        return rc;
    return prof_active_write(injection, instance, active, fault);
}
