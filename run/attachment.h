/* Everything that a verb needs of one target, opened in the order that stops nothing first. */
#pragma once

#include "inject/call.h"
#include "jemalloc/hooks.h"
#include "jemalloc/instance.h"
#include "run/events.h"
#include "run/stall_guard.h"

#include <stdio.h>

struct attach_request {
    pid_t pid;
    const struct target_pin *pin;    /* the process as it was chosen; NULL: whichever has the pid */
    pid_t thread;                    /* the only thread that may be stopped; 0: any */
    size_t instance;                 /* of jemalloc, from 1; 0: the default */
    uint64_t timeout_ns;             /* for one attach */
    bool force_hooks;                /* functions of the application may run in a call */
    FILE *trace;                     /* gets a line for each access to the target; NULL: none */
    const struct run_events *events; /* NULL: none */
};

struct attachment {
    struct attach_request request;
    struct procfs proc;
    struct target target;
    struct gate gate;
    struct memory memory;
    struct modules modules;
    struct instance instance;   /* the one that the verb is about */
    struct instances instances; /* all, if `every` was asked for; else none */
    struct plan plan;
    struct deadline deadline;
    struct stall_guard stall_guard;
    struct injection injection;
    struct injection_summary last; /* of the last thread that was held; injection may be newer */
    struct hooks_consent hooks;    /* --force-hooks, and what ran because of it */
    bool frame_checked;            /* on a child of the tool: once is enough */
    unsigned holds;                /* made so far */
    unsigned calls;                /* in all of them */
    uint64_t longest_ns;           /* that one of them took */
    uint64_t search_ns;            /* how long a safe point is looked for; 0: until the deadline */
    struct interrupted_sleep sleeps[INJECTION_SLEEPS]; /* from one hold to the next */
    bool opened;                                       /* target is that of the request */
    char variable[PREFIX_MAX + 16];                    /* MALLOC_CONF, _RJEM_MALLOC_CONF */
};

/*
 * Looks without stopping: identity, modules, jemalloc, what is to be avoided.
 * With request->instance all instances are looked for, else no more than the
 * default. What the request points to must outlive the attachment.
 * attachment_close in each case.
 */
fault_code attachment_open(struct attachment *attachment, const struct attach_request *request,
                           struct fault *fault);
/* The same without what a call needs, and with all instances: a traced process can be looked at. */
fault_code attachment_look(struct attachment *attachment, const struct attach_request *request,
                           struct fault *fault);
/* After attachment_look: what it left out, so that a call can be made. */
fault_code attachment_prepare(struct attachment *attachment, struct fault *fault);
/* What a verb does while a thread is held: attachment->injection is ready for calls. */
typedef fault_code (*held_action)(struct attachment *attachment, void *ctx, struct fault *fault);
/*
 * Checks the forged frame on a child of the tool, holds one thread of the
 * target, runs the action and lets the thread go, whatever came of it; in a
 * thread of the tool's own (apart.h).
 */
fault_code attachment_hold(struct attachment *attachment, held_action action, void *ctx,
                           struct fault *fault);
/*
 * Between two holds of one process: nothing ticks, nothing is watched, and
 * attachment_renew must come before the next hold.
 */
void attachment_rest(struct attachment *attachment);
/*
 * Before another hold: is it the same process still, in the same program
 * (FAULT_GONE, FAULT_REUSED, FAULT_EXECED)? Modules, threads and what is to be
 * avoided are looked at anew, as it may have loaded a library meanwhile. The
 * deadline begins anew too, with request.timeout_ns; interrupted is its flag
 * (interrupt.h), or NULL: this hold is not to be given up.
 */
fault_code attachment_renew(struct attachment *attachment, const volatile sig_atomic_t *interrupted,
                            struct fault *fault);
/* For what holds threads by itself, after a hold that has checked the frame. */
struct injection_env attachment_env(struct attachment *attachment);
/* Closes everything; idempotent. */
void attachment_close(struct attachment *attachment);

/* Reports a note to request.events. */
void attachment_note(const struct attachment *attachment, const struct run_note *note);
