#include "run/sampling.h"
#include "run/faults.h"
#include "run/interrupt.h"

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

/* ---- the beginning ---- */

/* From now on this run has to switch it off, or the last of the others that do. */
static void owe_off(struct sampling *sampling)
{
    sampling->former.prof_active = FACT_NO;
    sampling->owed = true;
    peers_mark(&sampling->peers, PEER_OWES, true);
    children_await(&sampling->children);
}

/* It was switched on by another program: that is the former value. */
static void disown(struct sampling *sampling)
{
    sampling->former.prof_active = FACT_YES;
    sampling->owed = sampling->children.awaited = false;
    peers_mark(&sampling->peers, PEER_OWES, false);
}

/* A switch that has failed may have been made all the same: either value is then this run's. */
static void heed_failure(struct sampling *sampling, fault_code rc, bool other)
{
    if (rc != FAULT_NONE)
        sampling->after = (struct dump_after){.wanted = true, .active = other};
}

static fault_code switch_on(struct attachment *attachment, struct sampling *sampling,
                            struct fault *fault)
{
    struct peers *peers = &sampling->peers;
    struct access_switched switched;
    fault_code rc;

    peers_open(peers, &attachment->target);
    peers_enter(peers, &attachment->deadline);
    rc = access_state(attachment, &sampling->former, fault);
    sampling->active = prof_is_active(&sampling->former);
    if (rc == FAULT_NONE) {
        be_patient(attachment);
        peers_mark(peers, PEER_AT_WORK, true);
        sampling->shared = sampling->active && peers_others(peers, PEER_OWES);
        if (!sampling->active || sampling->shared)
            owe_off(sampling);
        if (!sampling->active) {
            rc = access_switch(attachment, true, &switched, fault);
            heed_failure(sampling, rc, false);
            if (rc == FAULT_NONE && prof_is_active(&switched.former))
                disown(sampling); /* another program was faster */
        }
        sampling->active = true;
        sampling->began = clock_now();
    }
    peers_leave(peers);
    return rc;
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
    struct activating activating;
    fault_code rc = activating_run(attachment, &sampling->former, &activating, fault);

    sampling->activation = activating.activation;
    note_threads(attachment, sampling, NOTE_THREADS_MISSED, activating.activation.missed);
    note_threads(attachment, sampling, NOTE_THREADS_UNSURE, activating.activation.unsure);
    if (rc == FAULT_NONE && activating.interrupted)
        rc = fault_set(fault, FAULT_INTERRUPTED, EINTR, "hold", "%d", (int)attachment->target.pid);
    return rc;
}

fault_code sampling_begin(struct attachment *attachment, struct sampling *sampling,
                          struct fault *fault)
{
    fault_code rc = switch_on(attachment, sampling, fault);

    if (sampling->began)
        children_recognise(&sampling->children, attachment);
    if (rc != FAULT_NONE)
        return rc;
    if (sampling->former.thread_active_init == FACT_NO)
        attachment_note(attachment, &(struct run_note){.kind = NOTE_NEW_THREADS_SILENT});
    if (activation_possible(sampling->former.build.text))
        rc = visit_threads(attachment, sampling, fault);
    return rc;
}

void sampling_tell(const struct attachment *attachment, const struct sampling *sampling)
{
    const enum run_note_kind begun = prof_is_active(&sampling->former) ? NOTE_ALREADY_ACTIVE
                                     : sampling->shared                ? NOTE_SHARED
                                                                       : NOTE_SWITCHED_ON;

    attachment_note(attachment, &(struct run_note){.kind = begun});
}

/* ---- prof.active meanwhile ---- */

/* Sets foreign if it is not as last known. */
static fault_code look(struct attachment *attachment, struct sampling *sampling,
                       struct fault *fault)
{
    bool active = false;
    fault_code rc = access_active(attachment, &active, fault);

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
    const bool entered = peers_enter(&sampling->peers, &attachment->deadline);
    fault_code rc = look(attachment, sampling, fault);
    const bool differs = rc == FAULT_NONE && !sampling->foreign && sampling->active != active;
    const bool ends = needed == PEER_OWES;
    struct access_switched switched;

    sampling->left_on = differs && !active && peers_others(&sampling->peers, needed);
    if (differs && !sampling->left_on) {
        sampling->owed = true;
        rc = access_switch(attachment, active, &switched, fault);
        heed_failure(sampling, rc, active);
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

/*
 * Restores and reads back the former state, unless another program has changed it, or another run
 * of the tool samples the process, too: then that run does it.
 */
static fault_code restore(struct attachment *attachment, struct sampling *sampling,
                          struct fault *fault)
{
    return write_active(attachment, sampling, prof_is_active(&sampling->former), PEER_OWES, fault);
}

fault_code sampling_keep(struct attachment *attachment, struct sampling *sampling,
                         struct fault *fault)
{
    const bool entered = peers_enter(&sampling->peers, &attachment->deadline);
    struct access_switched switched;
    bool active = false;
    fault_code rc = access_active(attachment, &active, fault);

    if (rc == FAULT_NONE && !active) {
        owe_off(sampling);
        rc = access_switch(attachment, true, &switched, fault);
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

/* Once. */
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

/* What is repeated until it succeeds. */
struct attempt {
    struct attachment *attachment;
    struct sampling *sampling;
    struct capture *capture; /* NULL: takes no profile */
    fault_code (*run)(const struct attempt *attempt, struct fault *fault);
    const volatile sig_atomic_t *interrupted; /* ends it; NULL: not interruptible */
    struct run_note retried;                  /* reported at the first failure, with its fault */
};

static fault_code profile_once(const struct attempt *attempt, struct fault *fault)
{
    fault_code rc = look(attempt->attachment, attempt->sampling, fault);

    return rc == FAULT_NONE ? access_profile(attempt->attachment, attempt->capture, NULL, fault)
                            : rc;
}

static fault_code stop_once(const struct attempt *attempt, struct fault *fault)
{
    return write_active(attempt->attachment, attempt->sampling, false, PEER_AT_WORK, fault);
}

static fault_code restore_once(const struct attempt *attempt, struct fault *fault)
{
    return attempt->sampling->owed ? restore(attempt->attachment, attempt->sampling, fault)
                                   : FAULT_NONE;
}

/* A profile that is taken is the result, whatever becomes of the restoring (sampling_settle). */
static fault_code finish_once(const struct attempt *attempt, struct fault *fault)
{
    struct attachment *attachment = attempt->attachment;
    struct sampling *sampling = attempt->sampling;
    const bool former = prof_is_active(&sampling->former);
    const bool entered = peers_enter(&sampling->peers, &attachment->deadline);
    struct fault ignored;
    fault_code rc = look(attachment, sampling, fault);

    if (rc == FAULT_NONE) {
        sampling->after =
            (struct dump_after){.wanted = !sampling->foreign && sampling->active != former &&
                                          (former || !peers_others(&sampling->peers, PEER_OWES)),
                                .active = former};
        rc = access_profile(attachment, attempt->capture, &sampling->after, fault);
    }
    if (rc == FAULT_NONE)
        (void)restore(attachment, sampling, &ignored);
    if (entered)
        peers_leave(&sampling->peers);
    return rc;
}

static fault_code try_once(const struct attempt *attempt, struct fault *fault)
{
    struct attachment *attachment = attempt->attachment;
    fault_code rc = attachment_renew(attachment, attempt->interrupted, fault);

    if (attempt->capture) {
        capture_free(attempt->capture);
        capture_init(attempt->capture);
    }
    if (rc == FAULT_NONE)
        rc = attempt->run(attempt, fault);
    attachment_rest(attachment);
    return rc;
}

/* A debugger or a SIGSTOP at this moment must not lose what was recorded. */
static fault_code try_until(const struct attempt *attempt, uint64_t until, struct fault *fault)
{
    struct run_note note = attempt->retried;
    fault_code rc;

    while ((rc = try_once(attempt, fault)) != FAULT_NONE && fault_is_transient(rc) &&
           clock_now() < until) {
        const struct pause pause = {.until = clock_now() + RETRY_NS,
                                    .interrupted = attempt->interrupted,
                                    .target = &attempt->attachment->target};
        if (!note.fault) {
            note.fault = fault;
            attachment_note(attempt->attachment, &note);
        }
        if (pause_until(&pause) == PAUSE_INTERRUPTED)
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "hold", "%d",
                             (int)attempt->attachment->target.pid);
    }
    return rc;
}

static fault_code try_to(struct attachment *attachment, struct sampling *sampling,
                         struct capture *capture,
                         fault_code (*run)(const struct attempt *attempt, struct fault *fault),
                         struct fault *fault)
{
    const struct attempt attempt = {.attachment = attachment,
                                    .sampling = sampling,
                                    .capture = capture,
                                    .run = run,
                                    .interrupted = interrupt_again_flag(),
                                    .retried = {.kind = NOTE_HOLD_RETRIED}};
    fault_code rc = try_until(&attempt, clock_now() + attachment->request.timeout_ns, fault);

    note_foreign(attachment, sampling);
    if (sampling->ended && !sampling->owed)
        sampling_leave(attachment, sampling);
    return rc;
}

fault_code sampling_profile(struct attachment *attachment, struct sampling *sampling,
                            struct capture *capture, struct fault *fault)
{
    return try_to(attachment, sampling, capture, profile_once, fault);
}

fault_code sampling_stop(struct attachment *attachment, struct sampling *sampling,
                         struct fault *fault)
{
    return try_to(attachment, sampling, NULL, stop_once, fault);
}

fault_code sampling_finish(struct attachment *attachment, struct sampling *sampling,
                           struct capture *capture, struct fault *fault)
{
    return try_to(attachment, sampling, capture, finish_once, fault);
}

/* Not interruptible: only a third Ctrl-C ends it. */
static fault_code give_back(struct attachment *attachment, struct sampling *sampling,
                            struct fault *fault)
{
    const struct attempt attempt = {
        .attachment = attachment,
        .sampling = sampling,
        .run = restore_once,
        .retried = {.kind = NOTE_RESTORE_RETRIED, .active = prof_is_active(&sampling->former)}};

    attachment->caller.owes = attachment->caller.calls > 0; /* until it is closed */
    return try_until(&attempt, clock_now() + (uint64_t)GIVE_UP_S * SECOND_NS, fault);
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
