#include "jemalloc/build.h"
#include "jemalloc/faults.h"

#include <stdio.h>
#include <string.h>

enum {
    OP_VERSION,
    OP_CONFIG_PROF,
    OP_OPT_PROF,
    OP_CONFIG_STATS,
    OP_BINS,
    OP_LARGE,
    OP_RUNS,
    OP_HUGE,
    OP_COUNT
};

/* Names that are new in a release and exist whatever the options of configure. */
static const struct {
    unsigned number;
    struct ctl_op op;
} marks[] = {
    {VERSION_NUMBER(4, 0, 0), {.name = "opt.abort", .type = CTL_BOOL}},
    {VERSION_NUMBER(4, 1, 0), {.name = "config.malloc_conf", .type = CTL_STRING}},
    {VERSION_NUMBER(5, 0, 0), {.name = "opt.retain", .type = CTL_BOOL}},
    {VERSION_NUMBER(5, 1, 0), {.name = "opt.max_background_threads", .type = CTL_SIZE}},
    {VERSION_NUMBER(5, 2, 0), {.name = "opt.oversize_threshold", .type = CTL_SIZE}},
    {VERSION_NUMBER(5, 2, 1), {.name = "opt.confirm_conf", .type = CTL_BOOL}},
    {VERSION_NUMBER(5, 3, 0), {.name = "opt.trust_madvise", .type = CTL_BOOL}},
    {VERSION_NUMBER(5, 3, 1), {.name = "opt.process_madvise_max_batch", .type = CTL_SIZE}},
};

static fault_code guess_version(struct injection *injection, const struct instance *instance,
                                struct build *build, struct fault *fault)
{
    struct ctl_op ops[ARRAY_LEN(marks)];
    fault_code rc;

    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        ops[i] = marks[i].op;
    rc = ctl_run(injection, instance, ops, ARRAY_LEN(ops), NULL, fault);
    if (rc != FAULT_NONE)
        return rc;
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (ops[i].rc == 0)
            build->version.number = marks[i].number;
    build->guessed = true;
    ctl_free(ops, ARRAY_LEN(ops));
    return FAULT_NONE;
}

fault_code build_take(struct build *build, const struct ctl_op *ops, size_t count,
                      struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    memset(build, 0, sizeof *build);
    for (const struct ctl_op *op = ops; op < ops + count; op++) {
        if (strcmp(op->name, "config.prof") == 0)
            build->config_prof = fact_of(ctl_is_true(op));
        else if (strcmp(op->name, "opt.prof") == 0)
            build->opt_prof = fact_of(ctl_is_true(op));
        else if (strcmp(op->name, "config.stats") == 0)
            build->config_stats = fact_of(ctl_is_true(op));
        if (strcmp(op->name, "version") != 0)
            continue;
        snprintf(build->text, sizeof build->text, "%s", op->text ? op->text : "");
        if (op->rc != 0)
            rc = fault_set(fault, FAULT_CTL_REFUSED, op->rc, "mallctl", "version");
    }
    build->version = version_parse(build->text);
    return rc;
}

static unsigned read_count(const struct ctl_op *op)
{
    return op->rc == 0 ? (unsigned)op->value : 0;
}

fault_code build_read(struct injection *injection, const struct instance *instance,
                      struct build *build, struct fault *fault)
{
    struct ctl_op ops[OP_COUNT] = {
        [OP_VERSION] = {.name = "version", .type = CTL_STRING},
        [OP_CONFIG_PROF] = {.name = "config.prof", .type = CTL_BOOL},
        [OP_OPT_PROF] = {.name = "opt.prof", .type = CTL_BOOL},
        [OP_CONFIG_STATS] = {.name = "config.stats", .type = CTL_BOOL},
        [OP_BINS] = {.name = "arenas.nbins", .type = CTL_UNSIGNED},
        [OP_LARGE] = {.name = "arenas.nlextents", .type = CTL_UNSIGNED},
        [OP_RUNS] = {.name = "arenas.nlruns", .type = CTL_UNSIGNED},
        [OP_HUGE] = {.name = "arenas.nhchunks", .type = CTL_UNSIGNED},
    };
    struct ctl_op arenas = {.name = "arenas.narenas", .type = CTL_UNSIGNED};
    fault_code rc = ctl_run(injection, instance, ops, OP_COUNT, NULL, fault);

    memset(build, 0, sizeof *build);
    if (rc != FAULT_NONE)
        return rc;
    rc = build_take(build, ops, OP_COUNT, fault);
    build->bins = read_count(&ops[OP_BINS]);
    build->large = read_count(&ops[OP_LARGE]);
    build->runs = read_count(&ops[OP_RUNS]);
    build->huge = read_count(&ops[OP_HUGE]);
    ctl_free(ops, OP_COUNT);
    if (rc == FAULT_NONE && build->version.number == 0)
        rc = guess_version(injection, instance, build, fault);
    /* Up to 4.0.4 an index of an arena must be checked here (names.c, index_is_safe). */
    if (rc == FAULT_NONE &&
        version_within(build->version, VERSION_NUMBER(4, 0, 0), VERSION_NUMBER(4, 0, 99))) {
        rc = ctl_run(injection, instance, &arenas, 1, NULL, fault);
        build->arenas = rc == FAULT_NONE ? read_count(&arenas) : 0;
    }
    return rc;
}

fault_code build_can_profile(const struct build *build, struct fault *fault)
{
    const int release = (int)strcspn(build->text, "-"); /* a commit follows */

    if (build->config_prof != FACT_YES)
        return fault_set(fault, FAULT_PROF_ABSENT, 0, "read config.prof", "jemalloc %.*s", release,
                         build->text);
    if (build->opt_prof != FACT_YES)
        return fault_set(fault, FAULT_PROF_DISABLED, 0, "read opt.prof", "jemalloc %.*s", release,
                         build->text);
    return FAULT_NONE;
}
