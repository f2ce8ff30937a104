#include "run/toggle.h"
#include "jemalloc/faults.h"
#include "jemalloc/prof.h"
#include "run/interrupt.h"
#include "run/readout.h"
#include "run/switching.h"

struct toggling {
    struct toggle *result;
    struct prof_state former;
    struct activation_layout layout;
};

static fault_code toggle_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct toggling *toggling = ctx;
    bool active = !toggling->result->former;
    fault_code rc = prof_switch(&attachment->injection, &attachment->instance, active,
                                &toggling->former, fault);

    if (rc == FAULT_NONE && active && activation_possible(toggling->former.build.text))
        rc = activation_learn(&attachment->injection, &attachment->instance, &toggling->layout,
                              fault);
    return rc;
}

/* The byte, where it is certain; else the call that on and off make. */
static fault_code write_other(struct attachment *attachment, struct toggling *toggling,
                              struct fault *fault)
{
    struct toggle *result = toggling->result;
    const char *why = switching_find(attachment, !result->former, &toggling->former);
    const bool calls = attachment->request.way == WAY_CALL;
    fault_code rc;

    if (why && attachment->byte.visits && activating_is_seen(attachment, true))
        why = NULL;
    if (!why && !calls) {
        rc = switching_write(attachment, !result->former, &toggling->former, fault);
        result->in_memory = rc == FAULT_NONE;
        if (rc != FAULT_UNWRITABLE || attachment->request.way == WAY_MEMORY)
            return rc;
    } else if (attachment->request.way == WAY_MEMORY) {
        return switching_refuse(attachment, why, fault);
    }
    return readout_hold(attachment, toggle_held, toggling, fault);
}

/* After a fault: what memory shows now, as a call may have failed behind the write. */
static void see_state(struct attachment *attachment, struct toggle *result)
{
    struct prof_state state;

    if (!switching_find(attachment, true, &state) && state.prof_active != FACT_UNKNOWN) {
        result->now = prof_is_active(&state);
        result->known = result->now != result->former;
    }
}

static fault_code toggle_renewed(struct attachment *attachment, struct toggling *toggling,
                                 struct fault *fault)
{
    struct toggle *result = toggling->result;
    fault_code rc;

    if (!switching_find(attachment, true, &toggling->former) ||
        toggling->former.prof_active != FACT_UNKNOWN)
        result->former = prof_is_active(&toggling->former);
    result->now = result->former;
    rc = write_other(attachment, toggling, fault);
    if (rc != FAULT_NONE) {
        see_state(attachment, result);
        return rc;
    }
    result->now = !result->former;
    result->known = true;
    if (!result->now)
        return FAULT_NONE;
    result->activated = true;
    return activating_run(
        attachment,
        &(struct activating_request){.state = &toggling->former,
                                     .layout = toggling->layout,
                                     .no_stops = attachment->request.way == WAY_MEMORY,
                                     .no_calls = attachment->request.way == WAY_MEMORY},
        &result->activating, fault);
}

fault_code toggle_prof(struct attachment *attachment, bool active, struct toggle *result,
                       struct fault *fault)
{
    struct toggling toggling = {.result = result};
    fault_code rc;

    *result = (struct toggle){.former = active, .now = active};
    rc = attachment_renew(attachment, interrupt_flag(), fault);
    if (rc == FAULT_NONE)
        rc = toggle_renewed(attachment, &toggling, fault);
    attachment_rest(attachment);
    return rc;
}
