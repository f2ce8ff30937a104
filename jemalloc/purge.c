#include "jemalloc/purge.h"

#include <stdio.h>

enum { ARENAS_ALL = 4096 }; /* MALLCTL_ARENAS_ALL, jemalloc_macros.h since 5.0 */
enum { OP_BEFORE = 1, OP_PURGE, OP_AFTER = 4, OP_COUNT };

/* Before 5.0 the number of arenas is the index that means all of them (arena_i_purge). */
static enum fault_code find_index(struct injection *injection, const struct instance *instance,
                                  const struct build *build, unsigned *index, struct fault *fault)
{
    struct ctl_op op = {.name = "arenas.narenas", .type = CTL_UNSIGNED};
    enum fault_code rc;

    *index = ARENAS_ALL;
    if (build->version.number >= VERSION_NUMBER(5, 0, 0))
        return FAULT_NONE;
    rc = ctl_run(injection, instance, &op, 1, NULL, fault);
    if (rc == FAULT_NONE && op.rc != 0)
        rc = fault_set(fault, FAULT_CTL_REFUSED, op.rc, "mallctl", "%s", op.name);
    *index = (unsigned)op.value;
    return rc;
}

static enum fault_code purge_all(struct injection *injection, const struct instance *instance,
                                 unsigned index, struct purge_result *result, struct fault *fault)
{
    const struct ctl_op epoch = {.name = "epoch", .type = CTL_UINT64, .writes = true};
    const struct ctl_op resident = {.name = "stats.resident", .type = CTL_SIZE};
    char name[32];
    struct ctl_op ops[OP_COUNT] = {
        epoch, resident, {.name = name, .type = CTL_VOID}, epoch, resident};
    enum fault_code rc;

    snprintf(name, sizeof name, "arena.%u.purge", index);
    rc = ctl_run(injection, instance, ops, OP_COUNT, NULL, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (ops[OP_PURGE].rc != 0)
        return fault_set(fault, FAULT_CTL_REFUSED, ops[OP_PURGE].rc, "mallctl", "%s", name);
    result->measured = ops[OP_BEFORE].rc == 0 && ops[OP_AFTER].rc == 0;
    result->resident_before = ops[OP_BEFORE].value;
    result->resident_after = ops[OP_AFTER].value;
    return FAULT_NONE;
}

enum fault_code purge_run(struct injection *injection, const struct instance *instance,
                          struct purge_result *result, struct fault *fault)
{
    struct build build;
    unsigned index = 0;
    enum fault_code rc = build_read(injection, instance, &build, fault);

    *result = (struct purge_result){0};
    if (rc == FAULT_NONE)
        rc = find_index(injection, instance, &build, &index, fault);
    return rc == FAULT_NONE ? purge_all(injection, instance, index, result, fault) : rc;
}
