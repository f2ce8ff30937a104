#include "jemalloc/reset.h"
#include "jemalloc/faults.h"

fault_code reset_run(struct injection *injection, const struct instance *instance,
                     struct hooks_consent *consent, struct fault *fault)
{
    struct ctl_op op = {.name = "prof.reset", .type = CTL_SIZE, .write_only = true};
    struct build build;
    fault_code rc = build_read(injection, instance, &build, fault);

    if (rc == FAULT_NONE)
        rc = build_can_profile(&build, fault);
    if (rc == FAULT_NONE)
        rc = hooks_check(injection, instance, HOOKS_AUTOMATIC, consent, NULL, fault);
    if (rc == FAULT_NONE)
        rc = ctl_run(injection, instance, &op, 1, NULL, fault);
    if (rc == FAULT_NONE && op.rc != 0)
        rc = fault_set(fault, FAULT_CTL_REFUSED, op.rc, "mallctl", "%s", op.name);
    return rc;
}
