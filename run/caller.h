/*
 * What makes calls in a target: the plan, one stopped thread at a time, and what became of it. It
 * is made when a call is certain, by a door (run/access.h, run/account.h) or by a verb that only a
 * call can serve.
 */
#pragma once

#include "inject/call.h"
#include "jemalloc/hooks.h"

struct attachment;

struct caller {
    bool planned; /* plan is made */
    struct plan plan;
    struct injection injection;
    struct injection_summary last; /* of the last thread that was stopped; injection may be newer */
    enum target_end end;           /* of that thread, or its process, when it was resumed */
    struct hooks_consent hooks;    /* request.force_hooks, and what ran because of it */
    bool owes;                     /* calls only give back what calls have changed */
    bool frame_checked;            /* on a child of the tool, once */
    unsigned holds;                /* so far: threads stopped */
    unsigned attempts;             /* so far: stops, also those at no safe point */
    unsigned calls;                /* in all holds */
    uint64_t held_ns, longest_ns;  /* all of them, and the longest */
    struct interrupted_sleep sleeps[INJECTION_SLEEPS]; /* kept from one hold to the next */
    struct stops stops;                                /* as well */
};

/* Runs while a thread is stopped: caller.injection is ready for calls. */
typedef fault_code (*held_action)(struct attachment *attachment, void *ctx, struct fault *fault);
/*
 * After attachment_find: checks that an attach may succeed, and makes the plan
 * unless there is one: calls are possible, and caller_env has what code needs that stops threads
 * itself.
 */
fault_code caller_prepare(struct attachment *attachment, struct fault *fault);
struct injection_env caller_env(struct attachment *attachment);
/*
 * caller_prepare; then checks the forged frame on a child of the tool, stops one thread of the
 * target, runs the action and resumes the thread in any case. This runs in a separate thread of
 * the tool (apart.h). FAULT_CALL_FORBIDDEN with WAY_MEMORY.
 */
fault_code caller_hold(struct attachment *attachment, held_action action, void *ctx,
                       struct fault *fault);
/* Drops the plan of a program that may have changed. */
void caller_forget(struct caller *caller);
