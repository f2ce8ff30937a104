#include "run/frozen.h"
#include "inject/freeze.h"
#include "jemalloc/faults.h"
#include "run/apart.h"

#include <errno.h>
#include <time.h>

enum { AGAIN_NS = 3000000 };

struct frozen {
    struct attachment *attachment;
    frozen_action action;
    void *ctx;
    struct frozen_summary *summary;
    struct fault *fault;
    fault_code code;
    unsigned tries; /* of this read */
};

/* The process waits for the end of the read, which may wait for one of its own threads. */
static void start_frozen_guard(const struct attachment *attachment, struct stall_guard *guard)
{
    const struct run_events *events = attachment->request.events;
    const struct stall_guard_case what = {.frozen = true,
                                          .stalled = events ? events->stalled : NULL,
                                          .ctx = events ? events->ctx : NULL};

    stall_guard_start(guard, 0, &what);
}

static fault_code read_frozen(struct frozen *frozen)
{
    struct attachment *attachment = frozen->attachment;
    const struct freeze_env env = {&attachment->target, &attachment->gate, &attachment->deadline};
    struct stall_guard guard;
    struct freeze freeze;
    fault_code rc;

    start_frozen_guard(attachment, &guard);
    rc = freeze_begin(&freeze, &env, frozen->fault);
    if (rc == FAULT_NONE)
        rc = frozen->action(frozen->ctx, frozen->fault);
    freeze_end(&freeze);
    stall_guard_stop(&guard);
    frozen->summary->threads = freeze.threads;
    frozen->summary->ns += freeze.ns;
    frozen->summary->times++;
    frozen->tries++;
    return rc;
}

static void freeze_apart(void *ctx)
{
    const struct timespec again = {0, AGAIN_NS};
    struct frozen *frozen = ctx;
    struct attachment *attachment = frozen->attachment;

    stall_guard_follow(&attachment->stall_guard);
    for (;;) {
        frozen->code = read_frozen(frozen);
        if (frozen->code != FAULT_UNREADABLE || frozen->tries == FROZEN_TIMES ||
            deadline_passed(&attachment->deadline) || deadline_interrupted(&attachment->deadline))
            return;
        nanosleep(&again, NULL);
    }
}

fault_code frozen_run(struct attachment *attachment, frozen_action action, void *ctx,
                      struct frozen_summary *summary, struct fault *fault)
{
    struct frozen frozen = {attachment, action, ctx, summary, fault, FAULT_NONE, 0};
    struct fault own;

    frozen.fault = fault ? fault : &own;
    apart_run(freeze_apart, &frozen);
    stall_guard_follow(&attachment->stall_guard);
    return attachment_explain(attachment, frozen.code, frozen.fault);
}
