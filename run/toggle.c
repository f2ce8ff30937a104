#include "run/toggle.h"
#include "run/access.h"
#include "run/interrupt.h"

static fault_code toggle_renewed(struct attachment *attachment, struct toggle *result,
                                 struct fault *fault)
{
    struct access_switched switched;
    struct prof_state state;
    fault_code rc;

    if (!access_find_byte(attachment, true, &state) || state.prof_active != FACT_UNKNOWN)
        result->former = prof_is_active(&state);
    result->now = result->former;
    rc = access_switch(attachment, !result->former, &switched, fault);
    if (rc != FAULT_NONE) { /* what memory shows now, as a call may have failed behind the write */
        if (!access_find_byte(attachment, true, &state) && state.prof_active != FACT_UNKNOWN) {
            result->now = prof_is_active(&state);
            result->known = result->now != result->former;
        }
        return rc;
    }
    result->in_memory = switched.in_memory;
    result->now = !result->former;
    result->known = true;
    if (!result->now)
        return FAULT_NONE;
    result->activated = true;
    return activating_run(attachment, &switched.former, &result->activating, fault);
}

fault_code toggle_prof(struct attachment *attachment, bool active, struct toggle *result,
                       struct fault *fault)
{
    fault_code rc;

    *result = (struct toggle){.former = active, .now = active};
    rc = attachment_renew(attachment, interrupt_flag(), fault);
    if (rc == FAULT_NONE)
        rc = toggle_renewed(attachment, result, fault);
    attachment_rest(attachment);
    return rc;
}
