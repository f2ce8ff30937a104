#include "run/switching.h"
#include "jemalloc/faults.h"
#include "run/need.h"

const char *switching_find(struct attachment *attachment, bool active, struct prof_state *state)
{
    return prof_byte_find(&attachment->byte, active, &attachment->instance, &attachment->modules,
                          &attachment->target, &attachment->memory, state);
}

fault_code switching_refuse(struct attachment *attachment, const char *why, struct fault *fault)
{
    const remote_addr known = attachment->instance.mallctl;
    char byte;

    if (!memory_read(&attachment->memory, known, &byte, 1) &&
        target_check_end(&attachment->target, fault) != FAULT_NONE)
        return fault->code;
    if (!memory_is_same(&attachment->memory, known))
        return fault_set(fault, FAULT_EXECED, 0, "find prof.active", "%d",
                         (int)attachment->target.pid);
    if (attachment->memory.left_out)
        return need_explain_swapped(attachment, fault);
    return fault_set(fault, FAULT_UNWRITABLE, 0, "find prof.active", "%s", why);
}

fault_code switching_write(struct attachment *attachment, bool active,
                           const struct prof_state *state, struct fault *fault)
{
    struct fault end;
    fault_code rc = build_can_profile(&state->build, fault);

    if (rc == FAULT_NONE)
        rc = target_check(&attachment->target, fault);
    if (rc != FAULT_NONE || prof_is_active(state) == active)
        return rc;
    rc = prof_byte_write(&attachment->byte, active, &attachment->memory, fault);
    if (rc != FAULT_NONE && target_check(&attachment->target, &end) != FAULT_NONE)
        *fault = end;
    return rc == FAULT_NONE ? FAULT_NONE : fault->code;
}
