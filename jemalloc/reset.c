#include "jemalloc/reset.h"
#include "jemalloc/faults.h"

static fault_code judge_reset(const struct ctl_op *ops, size_t count, int lg_sample,
                              struct fault *fault)
{
    for (size_t i = 0; i < count; i++)
        if (ops[i].rc != 0)
            return fault_set(fault, FAULT_CTL_REFUSED, ops[i].rc, "mallctl", "%s", ops[i].name);
    if (lg_sample >= 0 && ops[count - 1].value != (uint64_t)lg_sample)
        return fault_set(fault, FAULT_CTL_REFUSED, 0, "mallctl",
                         "prof.reset to %d: prof.lg_sample is %llu", lg_sample,
                         (unsigned long long)ops[count - 1].value);
    return FAULT_NONE;
}

fault_code reset_run(struct injection *injection, const struct instance *instance, int lg_sample,
                     struct hooks_consent *consent, struct reset_result *result,
                     struct fault *fault)
{
    struct ctl_op ops[] = {
        {.name = "prof.lg_sample", .type = CTL_SIZE},
        {.name = "prof.reset",
         .type = CTL_SIZE,
         .writes = lg_sample >= 0,
         .write_only = true,
         .new_value = (uint64_t)lg_sample},
        {.name = "prof.lg_sample", .type = CTL_SIZE},
    };
    struct build build;
    fault_code rc = build_read(injection, instance, &build, fault);

    if (rc == FAULT_NONE)
        rc = build_can_profile(&build, fault);
    if (rc == FAULT_NONE)
        rc = hooks_check(injection, instance, HOOKS_AUTOMATIC, consent, NULL, fault);
    if (rc == FAULT_NONE)
        rc = ctl_run(injection, instance, ops, ARRAY_LEN(ops), NULL, fault);
    if (rc == FAULT_NONE)
        rc = judge_reset(ops, ARRAY_LEN(ops), lg_sample, fault);
    *result = (struct reset_result){ops[0].value, ops[2].value};
    return rc;
}
