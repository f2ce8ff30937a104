#include "jemalloc/purge.h"
#include "jemalloc/faults.h"

#include <stdio.h>

enum { PURGES_MAX = 40, NAME_SIZE = 32 };

/* Writes epoch and reads stats.resident. */
static fault_code measure(struct injection *injection, const struct instance *instance,
                          bool *measured, uint64_t *resident, struct fault *fault)
{
    struct ctl_op ops[] = {
        {.name = "epoch", .type = CTL_UINT64, .writes = true},
        {.name = "stats.resident", .type = CTL_SIZE},
    };
    fault_code rc = ctl_run(injection, instance, ops, ARRAY_LEN(ops), NULL, fault);

    *measured &= rc == FAULT_NONE && ops[1].rc == 0;
    *resident = ops[1].value;
    return rc;
}

/* Purges at most PURGES_MAX arenas. */
static fault_code purge_some(struct injection *injection, const struct instance *instance,
                             unsigned first, unsigned end, struct fault *fault)
{
    struct ctl_op ops[PURGES_MAX] = {0};
    char names[PURGES_MAX][NAME_SIZE];
    fault_code rc;

    for (unsigned i = first; i < end; i++) {
        snprintf(names[i - first], NAME_SIZE, "arena.%u.purge", i);
        ops[i - first] = (struct ctl_op){.name = names[i - first], .type = CTL_VOID};
    }
    rc = ctl_run(injection, instance, ops, end - first, NULL, fault);
    for (unsigned i = first; i < end && rc == FAULT_NONE; i++)
        if (ops[i - first].rc != 0)
            rc = fault_set(fault, FAULT_CTL_REFUSED, ops[i - first].rc, "mallctl", "%s",
                           ops[i - first].name);
    return rc;
}

/* For a missing arena jemalloc does nothing and returns 0 (arena_i_decay). */
fault_code purge_run(struct injection *injection, const struct instance *instance,
                     struct hooks_consent *consent, struct purge_result *result,
                     struct fault *fault)
{
    unsigned arenas = 0;
    fault_code rc = hooks_check(injection, instance, HOOKS_ALL, consent, &arenas, fault);

    *result = (struct purge_result){.measured = true};
    if (rc == FAULT_NONE)
        rc = measure(injection, instance, &result->measured, &result->resident_before, fault);
    for (unsigned i = 0; i < arenas && rc == FAULT_NONE; i += PURGES_MAX)
        rc = purge_some(injection, instance, i, arenas - i < PURGES_MAX ? arenas : i + PURGES_MAX,
                        fault);
    if (rc == FAULT_NONE)
        rc = measure(injection, instance, &result->measured, &result->resident_after, fault);
    return rc;
}
