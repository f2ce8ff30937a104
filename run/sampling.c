#include "run/sampling.h"
#include "jemalloc/dump.h"
#include "run/apart.h"
#include "run/faults.h"
#include "run/interrupt.h"
#include "run/switching.h"

#include <errno.h>

enum { GIVE_UP_S = 30, RETRY_NS = 200000000, SECOND_NS = 1000000000 };

/* From here on the end of the tool would leave prof.active changed. */
static void be_patient(const struct attachment *attachment)
{
    const struct run_events *events = attachment->request.events;
    const char *farewell = NULL;

    if (events && events->farewell)
        farewell = events->farewell(events->ctx, attachment->target.pid);
    interrupt_patience(2, farewell);
}

/* ---- prof.active: through memory, or by a call in a hold ---- */

/* The byte is found again each time: modules come and go. */
static fault_code find_byte(struct attachment *attachment, bool active, struct prof_state *state,
                            struct fault *fault)
{
    const char *why = switching_find(attachment, active, state);

    return why ? switching_refuse(attachment, why, fault) : FAULT_NONE;
}

static fault_code read_active(struct attachment *attachment, bool *active, struct fault *fault)
{
    struct prof_state state;
    fault_code rc;

    if (!attachment->switches)
        return prof_active_read(&attachment->injection, &attachment->instance, active, fault);
    rc = find_byte(attachment, false, &state, fault);
    *active = prof_is_active(&state);
    return rc;
}

static fault_code switch_active(struct attachment *attachment, bool active, struct fault *fault)
{
    struct prof_state state;
    fault_code rc;

    if (!attachment->switches)
        return prof_active_write(&attachment->injection, &attachment->instance, active, fault);
    rc = find_byte(attachment, active, &state, fault);
    return rc == FAULT_NONE ? switching_write(attachment, active, &state, fault) : rc;
}

/* Reads the state, and what else a call depends on. */
static fault_code learn_state(struct attachment *attachment, struct sampling *sampling,
                              struct fault *fault)
{
    struct injection *injection = &attachment->injection;
    const struct instance *instance = &attachment->instance;
    fault_code rc;

    if (attachment->switches)
        return find_byte(attachment, true, &sampling->former, fault);
    rc = prof_read(injection, instance, &sampling->former, fault);
    if (rc == FAULT_NONE)
        rc = build_can_profile(&sampling->former.build, fault);
    if (rc == FAULT_NONE && !attachment->reads)
        rc = dump_streamable(injection, instance, &sampling->former, &attachment->hooks, fault);
    if (rc == FAULT_NONE && activation_possible(sampling->former.build.text))
        rc = activation_learn(injection, instance, &sampling->layout, fault);
    return rc;
}

/* From now on this run has to switch it off, or the last of the others that do. */
static void owe_off(struct sampling *sampling)
{
    sampling->former.prof_active = FACT_NO;
    sampling->owed = true;
    peers_mark(&sampling->peers, PEER_OWES, true);
    children_await(&sampling->children);
}

/* Nobody waits while a thread is stopped. */
static const struct deadline *time_to_enter(const struct attachment *attachment)
{
    return attachment->switches ? &attachment->deadline : NULL;
}

fault_code sampling_begin(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct sampling *sampling = ctx;
    struct peers *peers = &sampling->peers;
    fault_code rc;

    peers_open(peers, &attachment->target);
    peers_enter(peers, time_to_enter(attachment));
    rc = learn_state(attachment, sampling, fault);
    sampling->active = prof_is_active(&sampling->former);
    if (rc == FAULT_NONE) {
        be_patient(attachment);
        peers_mark(peers, PEER_AT_WORK, true);
        sampling->shared = sampling->active && peers_others(peers, PEER_OWES);
        if (!sampling->active || sampling->shared)
            owe_off(sampling);
        if (!sampling->active)
            rc = switch_active(attachment, true, fault);
        sampling->active = true;
        sampling->began = clock_now();
    }
    peers_leave(peers);
    return rc;
}

struct visit {
    struct attachment *attachment;
    struct sampling *sampling;
    struct fault *fault;
    fault_code code;
};

static void visit_apart(void *ctx)
{
    struct visit *visit = ctx;
    struct attachment *attachment = visit->attachment;
    struct sampling *sampling = visit->sampling;
    const struct injection_env env = attachment_env(attachment);
    const struct activation_options options = {.layout = sampling->layout,
                                               .may_sleep = true,
                                               .lg_sample = sampling->former.lg_sample,
                                               .consent = &attachment->hooks};

    stall_guard_follow(&attachment->stall_guard);
    visit->code =
        activation_run(&env, &attachment->instance, &options, &sampling->activation, visit->fault);
}

static void note_threads(const struct attachment *attachment, const struct sampling *sampling,
                         enum run_note_kind kind, size_t count)
{
    const struct run_note note = {.kind = kind,
                                  .count = count,
                                  .total = sampling->activation.threads,
                                  .version = sampling->former.build.text};

    if (count)
        attachment_note(attachment, &note);
}

/* For jemalloc 5.2, whose threads do not all resume sampling by themselves. */
static fault_code visit_threads(struct attachment *attachment, struct sampling *sampling,
                                struct fault *fault)
{
    const struct activation *activation = &sampling->activation;
    struct visit visit = {attachment, sampling, fault, FAULT_NONE};

    apart_run(visit_apart, &visit);
    stall_guard_follow(&attachment->stall_guard);
    if (activation->longest_ns > attachment->longest_ns)
        attachment->longest_ns = activation->longest_ns;
    note_threads(attachment, sampling, NOTE_THREADS_MISSED, activation->missed);
    note_threads(attachment, sampling, NOTE_THREADS_UNSURE, activation->unsure);
    return visit.code;
}

/* A version that names no release: the threads themselves show it, where their counts are known. */
static bool may_have_sleepers(const struct sampling *sampling)
{
    const char *version = sampling->former.build.text;

    return activation_needed(version) || (activation_possible(version) && sampling->layout.known);
}

fault_code sampling_begun(struct attachment *attachment, struct sampling *sampling, fault_code rc,
                          struct fault *fault)
{
    const enum run_note_kind begun = prof_is_active(&sampling->former) ? NOTE_ALREADY_ACTIVE
                                     : sampling->shared                ? NOTE_SHARED
                                                                       : NOTE_SWITCHED_ON;

    if (sampling->began)
        children_recognise(&sampling->children, attachment);
    if (rc != FAULT_NONE)
        return rc;
    if (sampling->former.thread_active_init == FACT_NO)
        attachment_note(attachment, &(struct run_note){.kind = NOTE_NEW_THREADS_SILENT});
    if (!attachment->switches && may_have_sleepers(sampling))
        rc = visit_threads(attachment, sampling, fault);
    if (rc == FAULT_NONE)
        attachment_note(attachment, &(struct run_note){.kind = begun});
    return rc;
}

fault_code sampling_look(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct sampling *sampling = ctx;
    bool active;
    fault_code rc = read_active(attachment, &active, fault);

    if (rc == FAULT_NONE && sampling->after.wanted && active == sampling->after.active)
        sampling->active = active;
    sampling->after.wanted &= rc != FAULT_NONE;
    if (rc != FAULT_NONE || active == sampling->active)
        return rc;
    sampling->foreign = true;
    sampling->active = active;
    sampling->owed = false; /* the present value is not ours to change */
    return FAULT_NONE;
}

/* Restores the former state, or stops before the end: then runs that owe nothing count, too. */
static fault_code write_active(struct attachment *attachment, struct sampling *sampling,
                               bool active, enum peer_mark needed, struct fault *fault)
{
    const bool former = prof_is_active(&sampling->former);
    const bool entered = peers_enter(&sampling->peers, time_to_enter(attachment));
    fault_code rc = sampling_look(attachment, sampling, fault);
    const bool differs = rc == FAULT_NONE && !sampling->foreign && sampling->active != active;
    const bool ends = needed == PEER_OWES;

    sampling->left_on = differs && !active && peers_others(&sampling->peers, needed);
    if (differs && !sampling->left_on) {
        sampling->owed = true;
        rc = switch_active(attachment, active, fault);
        if (rc == FAULT_NONE)
            sampling->active = active;
    }
    if (rc == FAULT_NONE && !sampling->ended && (ends || !sampling->left_on))
        sampling->ended = clock_now();
    if (rc == FAULT_NONE) {
        sampling->owed =
            !sampling->foreign && sampling->active != former && !(sampling->left_on && ends);
        peers_mark(&sampling->peers, PEER_OWES, sampling->owed && !former);
    }
    if (entered)
        peers_leave(&sampling->peers);
    return rc;
}

fault_code sampling_stop(struct attachment *attachment, void *ctx, struct fault *fault)
{
    return write_active(attachment, ctx, false, PEER_AT_WORK, fault);
}

/*
 * In a hold: restores and reads back the former state, unless another program has changed
 * it, or another run of the tool samples the process, too: then that run does it.
 */
static fault_code sampling_end(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct sampling *sampling = ctx;

    return write_active(attachment, sampling, prof_is_active(&sampling->former), PEER_OWES, fault);
}

fault_code sampling_keep(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct sampling *sampling = ctx;
    bool entered = peers_enter(&sampling->peers, time_to_enter(attachment)), active = true;
    fault_code rc = read_active(attachment, &active, fault);

    if (rc == FAULT_NONE && !active) {
        owe_off(sampling);
        rc = switch_active(attachment, true, fault);
        sampling->kept += rc == FAULT_NONE;
    }
    if (entered)
        peers_leave(&sampling->peers);
    return rc;
}

bool sampling_is_on(struct attachment *attachment)
{
    unsigned char byte;

    return attachment->byte.at &&
           memory_read(&attachment->memory, attachment->byte.at, &byte, sizeof byte) && byte == 1;
}

/* Once, and not while a thread is stopped. */
static void note_foreign(const struct attachment *attachment, struct sampling *sampling)
{
    const struct run_note note = {.kind = NOTE_SWITCHED_BY_ANOTHER, .active = sampling->active};

    if (!sampling->foreign || sampling->foreign_noted)
        return;
    sampling->foreign_noted = true;
    attachment_note(attachment, &note);
}

void sampling_leave(struct attachment *attachment, struct sampling *sampling)
{
    struct children *children = &sampling->children;
    const struct run_note note = {.kind = NOTE_CHILDREN_LEFT, .children = children};

    if (children->awaited && !(sampling->foreign && sampling->active)) {
        children_look(children, attachment);
        if (children->count)
            attachment_note(attachment, &note);
    }
    peers_close(&sampling->peers);
}

/* ---- waiting ---- */

struct wait {
    const struct attachment *attachment;
    enum run_activity activity;
    uint64_t since, until;
    bool (*over)(void *ctx);
    void *ctx;
    uint64_t report_at;
};

/* About once a second, however often `over` is called. */
static void report_progress(void *ctx)
{
    struct wait *wait = ctx;
    const struct run_events *events = wait->attachment->request.events;
    const struct run_progress progress = {
        .activity = wait->activity,
        .done_ns = clock_now() - wait->since,
        .total_ns = wait->until == UINT64_MAX ? UINT64_MAX : wait->until - wait->since,
        .rss_bytes = target_rss(&wait->attachment->target)};

    if (clock_now() < wait->report_at)
        return;
    events->progress(events->ctx, &progress);
    wait->report_at = clock_now() + SECOND_NS - TRIGGER_LOOK_NS / 2;
}

static bool is_due(void *ctx)
{
    const struct wait *wait = ctx;

    return wait->over(wait->ctx);
}

static bool look_at_trigger(void *ctx)
{
    return trigger_look(ctx);
}

enum pause_end sampling_wait(struct attachment *attachment, struct sampling *sampling,
                             enum run_activity activity, uint64_t until, struct trigger *trigger)
{
    return sampling_wait_for(attachment, sampling, activity, until,
                             trigger ? look_at_trigger : NULL, trigger);
}

enum pause_end sampling_wait_for(struct attachment *attachment, struct sampling *sampling,
                                 enum run_activity activity, uint64_t until,
                                 bool (*over)(void *ctx), void *ctx)
{
    const struct run_events *events = attachment->request.events;
    bool reports = events && events->progress;
    struct wait wait = {attachment, activity, clock_now(), until, over, ctx, 0};
    const struct pause pause = {.until = until,
                                .interrupted = interrupt_flag(),
                                .target = &attachment->target,
                                .tick = reports ? report_progress : NULL,
                                .over = over ? is_due : NULL,
                                .ctx = &wait,
                                .tick_ns = over ? TRIGGER_LOOK_NS : 0};
    enum pause_end end;

    if (sampling->reported_until) {
        wait.since = sampling->began;
        wait.until = sampling->reported_until;
    }
    attachment_rest(attachment);
    end = pause_until(&pause);
    if (reports)
        events->progress(events->ctx, NULL);
    sampling->interrupted |= end == PAUSE_INTERRUPTED;
    return end;
}

fault_code sampling_lost(const struct attachment *attachment, struct fault *fault)
{
    fault_code rc = target_check_end(&attachment->target, fault);

    if (rc == FAULT_NONE)
        rc = fault_set(fault, FAULT_GONE, ESRCH, "wait", "%d", (int)attachment->target.pid);
    return rc;
}

/* ---- the end ---- */

/* A hold that is repeated until it succeeds. */
struct reach {
    struct attachment *attachment;
    struct capture *capture; /* NULL: only the first step */
    struct capture_steps steps;
    const volatile sig_atomic_t *interrupted; /* ends it; NULL: not interruptible */
    struct run_note retried;                  /* reported at the first failure, with its fault */
};

static fault_code try_once(const struct reach *reach, struct fault *fault)
{
    struct attachment *attachment = reach->attachment;
    fault_code rc = attachment_renew(attachment, reach->interrupted, fault);

    if (reach->capture) {
        capture_free(reach->capture);
        capture_init(reach->capture);
    }
    if (rc == FAULT_NONE && reach->capture)
        rc = capture_take(attachment, reach->capture, &reach->steps, fault);
    else if (rc == FAULT_NONE)
        rc = readout_act(attachment, reach->steps.first, reach->steps.ctx, fault);
    attachment_rest(attachment);
    return rc;
}

/* A debugger or a SIGSTOP at this moment must not lose what was recorded. */
static fault_code try_until(const struct reach *reach, uint64_t until, struct fault *fault)
{
    struct run_note note = reach->retried;
    fault_code rc;

    while ((rc = try_once(reach, fault)) != FAULT_NONE && fault_is_transient(rc) &&
           clock_now() < until) {
        const struct pause pause = {.until = clock_now() + RETRY_NS,
                                    .interrupted = reach->interrupted,
                                    .target = &reach->attachment->target};
        if (!note.fault) {
            note.fault = fault;
            attachment_note(reach->attachment, &note);
        }
        if (pause_until(&pause) == PAUSE_INTERRUPTED)
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "hold", "%d",
                             (int)reach->attachment->target.pid);
    }
    return rc;
}

static fault_code run_steps(struct attachment *attachment, struct sampling *sampling,
                            struct capture *capture, const struct capture_steps *steps,
                            struct fault *fault)
{
    const struct reach reach = {.attachment = attachment,
                                .capture = capture,
                                .steps = *steps,
                                .interrupted = interrupt_again_flag(),
                                .retried = {.kind = NOTE_HOLD_RETRIED}};
    fault_code rc = try_until(&reach, clock_now() + attachment->request.timeout_ns, fault);

    peers_leave(&sampling->peers);
    note_foreign(attachment, sampling);
    if (sampling->ended && !sampling->owed)
        sampling_leave(attachment, sampling);
    return rc;
}

fault_code sampling_hold(struct attachment *attachment, struct sampling *sampling,
                         struct capture *capture, held_action action, void *ctx,
                         struct fault *fault)
{
    const struct capture_steps steps = {.first = action, .ctx = ctx};

    return run_steps(attachment, sampling, capture, &steps, fault);
}

/* What sampling_finish does around the profile. */
struct finish {
    struct sampling *sampling;
    held_action more;
    void *ctx;
};

static fault_code begin_finish(struct attachment *attachment, void *ctx, struct fault *fault)
{
    const struct finish *finish = ctx;
    struct sampling *sampling = finish->sampling;
    const bool former = prof_is_active(&sampling->former);
    fault_code rc;

    peers_enter(&sampling->peers, time_to_enter(attachment)); /* until the dump has written it */
    rc = sampling_look(attachment, sampling, fault);
    if (rc == FAULT_NONE && finish->more)
        rc = finish->more(attachment, finish->ctx, fault);
    if (rc == FAULT_NONE)
        sampling->after =
            (struct dump_after){.wanted = !sampling->foreign && sampling->active != former &&
                                          (former || !peers_others(&sampling->peers, PEER_OWES)),
                                .active = former};
    return rc;
}

static fault_code end_finish(struct attachment *attachment, void *ctx, struct fault *fault)
{
    const struct finish *finish = ctx;

    return sampling_end(attachment, finish->sampling, fault);
}

fault_code sampling_finish(struct attachment *attachment, struct sampling *sampling,
                           struct capture *capture, held_action more, void *ctx,
                           struct fault *fault)
{
    struct finish finish = {sampling, more, ctx};
    const struct capture_steps steps = {
        .first = begin_finish, .last = end_finish, .ctx = &finish, .after = &sampling->after};

    return run_steps(attachment, sampling, capture, &steps, fault);
}

static fault_code restore_owed(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct sampling *sampling = ctx;

    return sampling->owed ? sampling_end(attachment, sampling, fault) : FAULT_NONE;
}

/* Not interruptible: only a third Ctrl-C ends it. */
static fault_code give_back(struct attachment *attachment, struct sampling *sampling,
                            struct fault *fault)
{
    const struct reach reach = {
        .attachment = attachment,
        .steps = {.first = restore_owed, .ctx = sampling},
        .retried = {.kind = NOTE_RESTORE_RETRIED, .active = prof_is_active(&sampling->former)}};

    attachment->owes = attachment->calls > 0; /* until it is closed */
    return try_until(&reach, clock_now() + (uint64_t)GIVE_UP_S * SECOND_NS, fault);
}

bool sampling_is_gone(const struct attachment *attachment, struct sampling *sampling, fault_code rc)
{
    sampling->gone |= attachment_is_gone(attachment, rc);
    return sampling->gone;
}

fault_code sampling_settle(struct attachment *attachment, struct sampling *sampling,
                           struct fault *fault)
{
    fault_code rc = sampling->owed ? give_back(attachment, sampling, fault) : FAULT_NONE;
    bool gone = sampling_is_gone(attachment, sampling, rc);

    if (fault_is_gone(rc) && !gone) { /* only the thread of the request has ended */
        attachment->request.thread = 0;
        rc = give_back(attachment, sampling, fault);
        gone = sampling_is_gone(attachment, sampling, rc);
    }
    if (gone)
        rc = FAULT_NONE;
    note_foreign(attachment, sampling);
    sampling_leave(attachment, sampling);
    return rc;
}

uint64_t sampling_ns(const struct sampling *sampling)
{
    return (sampling->ended ? sampling->ended : clock_now()) - sampling->began;
}
