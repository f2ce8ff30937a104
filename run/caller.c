#include "run/caller.h"
#include "attach/permit.h"
#include "inject/selfcheck.h"
#include "jemalloc/code.h"
#include "jemalloc/ctl.h"
#include "run/apart.h"
#include "run/attachment.h"
#include "run/faults.h"
#include "run/need.h"

#include <errno.h>
#include <string.h>

enum { END_LOOKS = 1000, END_LOOK_NS = 1000000 };

fault_code caller_prepare(struct attachment *attachment, struct fault *fault)
{
    struct plan *plan = &attachment->caller.plan;
    struct fault seen = {0};
    bool certain;
    fault_code rc;

    permit_forecast(&attachment->target, attachment->request.thread, &certain, &seen);
    if (seen.code == FAULT_TRACED && !attachment->target.status.tracer)
        certain = false; /* it came after the process was read, and may leave as soon */
    if (seen.code != FAULT_NONE && certain) { /* else the kernel decides */
        *fault = seen;
        return attachment_explain(attachment, seen.code, fault);
    }
    if (attachment->caller.planned)
        return FAULT_NONE;
    rc = plan_make(plan, &attachment->modules, &attachment->target, &attachment->memory, fault);
    if (rc == FAULT_NONE)
        rc = code_forbid(&attachment->instance, plan, &attachment->target, &attachment->memory,
                         fault);
    for (size_t i = 0; i < attachment->instances.count && rc == FAULT_NONE; i++)
        if (i != attachment->instances.chosen)
            rc = code_forbid(&attachment->instances.list[i], plan, &attachment->target,
                             &attachment->memory, fault);
    plan_seal(plan);
    attachment->caller.planned = rc == FAULT_NONE;
    if (rc != FAULT_NONE)
        caller_forget(&attachment->caller);
    rc = attachment_unless_refused(attachment, rc, fault);
    return attachment_explain(attachment, rc, fault);
}

void caller_forget(struct caller *caller)
{
    plan_free(&caller->plan);
    memset(&caller->plan, 0, sizeof caller->plan);
    memset(&caller->stops, 0, sizeof caller->stops);
    caller->planned = false;
}

struct injection_env caller_env(struct attachment *attachment)
{
    return (struct injection_env){
        .target = &attachment->target,
        .memory = &attachment->memory,
        .modules = &attachment->modules,
        .plan = &attachment->caller.plan,
        .gate = &attachment->gate,
        .deadline = &attachment->deadline,
        .only_thread = attachment->request.thread,
        .named = attachment->request.thread != 0,
        .search_ns = attachment->request.search_ns,
        .sleeps = attachment->caller.sleeps,
        .stops = &attachment->caller.stops,
    };
}

struct hold {
    struct attachment *attachment;
    held_action action;
    void *ctx;
    struct fault *fault;
    fault_code code;
};

static void hold_apart(void *ctx)
{
    struct hold *hold = ctx;
    struct attachment *attachment = hold->attachment;
    struct caller *caller = &attachment->caller;
    struct fault *fault = hold->fault;
    const struct injection_env env = caller_env(attachment);
    fault_code rc = FAULT_NONE, ended;

    stall_guard_follow(&attachment->stall_guard);
    if (!caller->frame_checked)
        rc = selfcheck_run(&attachment->proc, fault);
    caller->frame_checked = rc == FAULT_NONE;
    if (rc == FAULT_NONE)
        rc = target_check(&attachment->target, fault);
    if (rc == FAULT_NONE && deadline_interrupted(&attachment->deadline))
        rc = fault_set(fault, FAULT_INTERRUPTED, EINTR, "hold", "%d", attachment->target.pid);
    if (rc == FAULT_NONE)
        rc = hooks_judge_interposed(&env, &caller->hooks, fault);
    if (rc == FAULT_NONE)
        rc = need_check(attachment, fault);
    if (rc == FAULT_NONE) {
        rc = injection_begin(&caller->injection, &env, fault);
        caller->attempts += caller->injection.summary.attempts;
    }
    rc = hold->code = attachment_explain(attachment, rc, fault);
    if (rc != FAULT_NONE)
        return;

    rc = ctl_confirm(&caller->injection, &attachment->instance, fault);
    if (rc == FAULT_NONE)
        rc = hold->action(attachment, hold->ctx, fault);
    ended = injection_end(&caller->injection, rc == FAULT_NONE ? fault : NULL);
    caller->last = caller->injection.summary;
    caller->holds++;
    caller->calls += caller->last.calls;
    caller->held_ns += caller->last.held_ns;
    if (caller->last.held_ns > caller->longest_ns)
        caller->longest_ns = caller->last.held_ns;
    hold->code = attachment_explain(attachment, rc == FAULT_NONE ? ended : rc, fault);
}

fault_code caller_hold(struct attachment *attachment, held_action action, void *ctx,
                       struct fault *fault)
{
    const struct timespec pause = {0, END_LOOK_NS};
    struct hold hold = {attachment, action, ctx, fault, FAULT_NONE};
    struct caller *caller = &attachment->caller;
    const pid_t *tid = &caller->injection.summary.tid;

    if (attachment->request.way == WAY_MEMORY)
        return fault_set(fault, FAULT_CALL_FORBIDDEN, 0, "hold", "%d", (int)attachment->target.pid);
    if (caller_prepare(attachment, fault) != FAULT_NONE)
        return fault->code;
    apart_run(hold_apart, &hold);
    /*
     * A thread that is gone for ptrace(2) ends for certain. Between taking SIGKILL and ending it
     * looks as if it lived.
     */
    for (unsigned looks = 0; *tid && looks < END_LOOKS; looks++) {
        caller->end = target_look_end(&attachment->target, *tid);
        if (caller->end != TARGET_LIVES || hold.code == FAULT_EXECED || !fault_is_gone(hold.code))
            break;
        nanosleep(&pause, NULL);
    }
    stall_guard_follow(&attachment->stall_guard);
    return hold.code;
}
