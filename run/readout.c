#include "run/readout.h"
#include "run/faults.h"
#include "run/need.h"
#include "run/switching.h"

#include <errno.h>

/* What a read of memory failed at may be the end of its process. */
static fault_code check_end(const struct attachment *attachment, fault_code rc, struct fault *fault)
{
    struct fault end;

    if (rc != FAULT_NONE && rc != FAULT_UNREADABLE)
        return rc;
    if (target_check(&attachment->target, &end) != FAULT_NONE) {
        *fault = end;
        return end.code;
    }
    if (!memory_is_same(&attachment->memory, attachment->instance.mallctl))
        return fault_set(fault, FAULT_EXECED, 0, "read the profile", "%d",
                         (int)attachment->target.pid);
    if (rc == FAULT_UNREADABLE && attachment->memory.left_out)
        return need_explain_swapped(attachment, fault);
    return rc;
}

static fault_code open_reader(struct attachment *attachment, struct fault *fault)
{
    const struct reader_source source = attachment_source(attachment, &attachment->deadline);
    fault_code rc = reader_open(&attachment->reader, &source, fault);

    attachment->reader_opened = rc == FAULT_NONE;
    return check_end(attachment, rc, fault);
}

fault_code readout_call_instead(struct attachment *attachment, struct fault *fault)
{
    if (attachment->request.way == WAY_MEMORY)
        return fault->code;
    attachment->reads = false;
    attachment_note(attachment, &(struct run_note){.kind = NOTE_UNREADABLE, .fault = fault});
    return attachment->planned ? FAULT_NONE : attachment_prepare(attachment, fault);
}

fault_code readout_open(struct attachment *attachment, const struct attach_request *request,
                        struct fault *fault)
{
    fault_code rc;

    if (request->way == WAY_CALL)
        return attachment_open(attachment, request, fault);
    rc = attachment_find(attachment, request, fault);
    if (rc != FAULT_NONE)
        return rc;
    rc = open_reader(attachment, fault);
    attachment->reads = rc == FAULT_NONE;
    return rc == FAULT_UNREADABLE ? readout_call_instead(attachment, fault) : rc;
}

static void count_read(struct attachment *attachment, const struct reading *reading)
{
    struct read_summary *read = &attachment->read;

    read->last = *reading;
    read->count++;
    if (reading->ns > read->longest_ns)
        read->longest_ns = reading->ns;
}

/* It was closed if the modules have changed. */
fault_code readout_find(struct attachment *attachment, struct fault *fault)
{
    return attachment->reader_opened ? FAULT_NONE : open_reader(attachment, fault);
}

fault_code readout_state(struct attachment *attachment, struct prof_state *state,
                         struct fault *fault)
{
    fault_code rc = readout_find(attachment, fault);

    if (rc == FAULT_NONE)
        facts_read(&attachment->reader.variables, &attachment->memory, state);
    return rc;
}

fault_code readout_take(struct attachment *attachment, struct sink *sink, struct fault *fault)
{
    struct reading reading;
    fault_code rc;

    if (deadline_interrupted(&attachment->deadline))
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "read the profile", "%d",
                         (int)attachment->target.pid);
    rc = readout_find(attachment, fault);
    if (rc == FAULT_NONE)
        rc = reader_read(&attachment->reader, sink, &reading, fault);
    rc = check_end(attachment, rc, fault);
    if (rc == FAULT_NONE)
        count_read(attachment, &reading);
    return rc;
}

fault_code readout_hold(struct attachment *attachment, held_action action, void *ctx,
                        struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    if (!attachment->planned && attachment->request.way != WAY_MEMORY)
        rc = attachment_prepare(attachment, fault);
    return rc == FAULT_NONE ? attachment_hold(attachment, action, ctx, fault) : rc;
}

/* Once: after a call has been planned, prof.active is always switched by calls. */
static fault_code choose_switch(struct attachment *attachment, struct fault *fault)
{
    struct prof_state state;
    const char *why;

    if (!attachment->reads || attachment->planned || attachment->switches)
        return FAULT_NONE;
    why = switching_find(attachment, true, &state);
    attachment->switches = !why;
    if (why && attachment->request.way == WAY_MEMORY)
        return switching_refuse(attachment, why, fault);
    return FAULT_NONE;
}

fault_code readout_act(struct attachment *attachment, held_action action, void *ctx,
                       struct fault *fault)
{
    fault_code rc = choose_switch(attachment, fault);

    if (rc != FAULT_NONE)
        return rc;
    if (attachment->switches)
        return action(attachment, ctx, fault);
    return readout_hold(attachment, action, ctx, fault);
}
