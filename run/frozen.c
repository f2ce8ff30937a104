#include "run/frozen.h"
#include "base/units.h"
#include "inject/freeze.h"
#include "run/apart.h"
#include "run/faults.h"
#include "run/need.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
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

static void count_freeze(struct frozen_summary *summary, const struct freeze *freeze, bool failed)
{
    summary->threads = freeze->threads;
    summary->ns += freeze->ns;
    summary->times++;
    if (!failed)
        return;
    summary->failed++;
    summary->failed_now++;
    summary->failed_ns += freeze->ns;
}

static fault_code read_frozen(struct frozen *frozen)
{
    struct attachment *attachment = frozen->attachment;
    const struct freeze_env env = {&attachment->target, &attachment->gate, &attachment->deadline};
    struct stall_guard guard;
    struct freeze freeze;
    fault_code rc;
    bool failed;

    start_frozen_guard(attachment, &guard);
    rc = freeze_begin(&freeze, &env, frozen->fault);
    failed = rc != FAULT_NONE;
    if (!failed)
        rc = frozen->action(frozen->ctx, frozen->fault);
    freeze_end(&freeze);
    stall_guard_stop(&guard);
    frozen->tries++;
    if (freeze.begun_at)
        count_freeze(frozen->summary, &freeze, failed);
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

static bool is_given_up(const struct frozen_summary *summary)
{
    return summary->failed_now >= FROZEN_ATTEMPTS || summary->failed_ns >= FROZEN_FAILED_NS;
}

/* Adds what the attempts have cost. */
static fault_code explain_failure(const struct frozen_summary *summary, struct fault *fault)
{
    const size_t len = strlen(fault->what);
    char took[UNITS_TEXT], times[32] = "";

    if (summary->failed > 1)
        snprintf(times, sizeof times, ", in %u attempts", summary->failed);
    if (summary->failed)
        snprintf(fault->what + len, sizeof fault->what - len, "; the others stood still for %s%s",
                 units_duration(summary->failed_ns, took), times);
    if (is_given_up(summary))
        fault->code = FAULT_FREEZE_GIVEN_UP;
    return fault->code;
}

fault_code frozen_run(struct attachment *attachment, frozen_action action, void *ctx,
                      struct frozen_summary *summary, struct fault *fault)
{
    struct frozen frozen = {attachment, action, ctx, summary, fault, FAULT_NONE, 0};
    struct fault own;
    fault_code rc;

    fault = fault ? fault : &own;
    frozen.fault = fault;
    if (is_given_up(summary)) {
        rc = fault_set(fault, FAULT_NO_FREEZE, 0, "freeze", "a thread did not stop before");
    } else if ((rc = need_check_cpu(attachment, fault)) == FAULT_NONE) {
        apart_run(freeze_apart, &frozen);
        stall_guard_follow(&attachment->stall_guard);
        rc = attachment_explain(attachment, frozen.code, fault);
    }
    return rc == FAULT_NO_FREEZE ? explain_failure(summary, fault) : rc;
}
