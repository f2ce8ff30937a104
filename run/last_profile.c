#include "run/last_profile.h"
#include "host/headroom.h"
#include "run/faults.h"
#include "run/interrupt.h"

#include <string.h>

enum {
    FIRST_NS = 100000000, /* the first steps are short: a process may end soon */
    SPARE_MOST = 4 << 20, /* bytes that stay mapped from one profile to the next */
    BACK_OFF_MOST = 6,    /* after failures the pause doubles so often */
};

#define TEXT_MOST ((size_t)1 << 30)

void last_profile_init(struct last_profile *last)
{
    memset(last, 0, sizeof *last);
    capture_init(&last->kept);
    capture_init(&last->next);
    last->next_ns = LAST_NEVER;
}

void last_profile_free(struct last_profile *last)
{
    capture_free(&last->kept);
    capture_free(&last->next);
}

/* ---- when ---- */

static uint64_t step_now(const struct last_profile *last, uint64_t now)
{
    const uint64_t elapsed = now - last->began_ns, most = last->request.step_ns;
    uint64_t first = most < FIRST_NS ? most : FIRST_NS;

    if (elapsed < first || most < first)
        return first;
    return elapsed < most ? elapsed : most;
}

static void plan_after(struct last_profile *last, uint64_t cost_ns)
{
    const uint64_t now = clock_now(), step = step_now(last, now);
    uint64_t pause = cost_ns * 100 / last->request.percent;

    if (pause < step)
        pause = step;
    last->cost_ns = cost_ns;
    last->next_ns = now + (pause << (last->failed < BACK_OFF_MOST ? last->failed : BACK_OFF_MOST));
}

void last_profile_plan(struct last_profile *last, const struct last_profile_request *request,
                       uint64_t cost_ns)
{
    last->request = *request;
    last->kept.taken = false;
    last->began_ns = clock_now();
    last->failed = 0;
    last->ended.code = FAULT_NONE;
    plan_after(last, cost_ns);
}

void last_profile_restart(struct last_profile *last)
{
    const bool never = last->next_ns == LAST_NEVER;

    last->kept.taken = false;
    last->began_ns = clock_now();
    plan_after(last, last->cost_ns);
    if (never)
        last->next_ns = LAST_NEVER;
}

/* ---- one profile ---- */

/*
 * Half of the machine's, and a quarter of what is left at the least limit above the tool, which may
 * be the target's: a read needs about as much again. What is kept for the end of a process is not
 * to be the reason for it.
 */
static size_t text_limit(const struct last_profile *last, const struct attachment *attachment)
{
    const size_t most = sink_affordable(&attachment->proc, TEXT_MOST),
                 mapped = last->next.text.mapped;
    struct headroom headroom;

    if (!headroom_read(&attachment->proc, PROC_SELF, &headroom) || headroom.bytes / 4 > most)
        return most;
    return headroom.bytes / 4 > mapped ? (size_t)(headroom.bytes / 4) : mapped;
}

void last_profile_make_room(struct last_profile *last, const struct attachment *attachment)
{
    if (last->kept.taken && text_limit(last, attachment) < last->kept.text.len) {
        last_profile_free(last);
        capture_init(&last->kept);
        capture_init(&last->next);
    }
}

static fault_code take_complete(struct last_profile *last, struct attachment *attachment,
                                uint64_t until, struct reading *reading, struct fault *fault)
{
    const struct target *target = &attachment->target;
    struct capture *next = &last->next;
    fault_code rc = attachment_renew(attachment, interrupt_flag(), fault);

    if (until < attachment->deadline.at) /* what comes after it is not to wait */
        attachment->deadline.at = until;
    next->time_ns = clock_ns(CLOCK_REALTIME);
    if (rc == FAULT_NONE) { /* the run's own reads stay what its messages are about */
        const struct read_summary former = attachment->read;
        next->text.len = 0;
        next->text.limit = text_limit(last, attachment);
        rc = access_read(attachment, &next->text, fault);
        *reading = attachment->read.last;
        attachment->read = former;
    }
    if (rc == FAULT_NONE)
        rc = dump_complete(target, &attachment->memory, &next->text, fault);
    /* The kernel may take the memory of a killed process away while it is read. */
    if (rc == FAULT_NONE && target_look_end(target, target_via(target)) == TARGET_ENDS)
        rc = fault_set(fault, FAULT_GONE, ESRCH, "read the profile", "%d", (int)target->pid);
    attachment_rest(attachment);
    return rc;
}

/* Once for each cause that lasts. */
static void note_unkept(struct last_profile *last, const struct attachment *attachment,
                        const struct fault *fault)
{
    const bool lasts = fault->code == FAULT_TOO_LARGE || fault->code == FAULT_UNREADABLE;

    if (lasts && last->noted != fault->code)
        attachment_note(
            attachment,
            &(struct run_note){.kind = NOTE_NOT_KEPT, .fault = fault, .more = last->kept.taken});
    if (lasts)
        last->noted = fault->code;
}

void last_profile_take(struct last_profile *last, struct attachment *attachment, uint64_t until)
{
    const uint64_t began = clock_now(), rss = target_rss(&attachment->target);
    struct reading reading = {0};
    struct fault fault;
    fault_code rc;

    if (began + 2 * last->cost_ns > until) {
        last->next_ns = until;
        return;
    }
    rc = take_complete(last, attachment, until, &reading, &fault);
    if (rc == FAULT_NONE) {
        const struct capture former = last->kept;
        last->kept = last->next;
        last->next = former;
        last->kept.bytes = last->kept.text.len;
        last->kept.taken = true;
        last->at_ns = began;
        last->rss = rss;
        last->reading = reading;
        attachment_note(attachment,
                        &(struct run_note){.kind = NOTE_KEPT, .count = last->kept.bytes});
        if (last->request.names)
            kept_files_renew(&attachment->kept_files, &attachment->modules, &attachment->target,
                             &attachment->memory);
    } else if (attachment_is_gone(attachment, rc)) {
        last->ended = fault;
    } else {
        note_unkept(last, attachment, &fault);
    }
    if (last->next.text.mapped > SPARE_MOST) { /* it would only take memory until the next one */
        capture_free(&last->next);
        capture_init(&last->next);
    }
    last->failed = rc == FAULT_NONE ? 0 : last->failed + 1;
    plan_after(last, clock_now() - began);
    if (rc == FAULT_UNREADABLE)
        last->next_ns = LAST_NEVER;
}

/* ---- while it is waited ---- */

enum pause_end last_profile_wait(struct last_profile *last, struct attachment *attachment,
                                 struct sampling *sampling, enum run_activity activity,
                                 uint64_t until, struct trigger *trigger)
{
    for (;;) {
        const bool takes = last->next_ns < until;
        const enum pause_end end =
            sampling_wait(attachment, sampling, activity, takes ? last->next_ns : until, trigger);
        if (!takes || end != PAUSE_OVER || (trigger && trigger->due))
            return end;
        last_profile_take(last, attachment, until);
        if (last->ended.code != FAULT_NONE)
            return PAUSE_ENDED;
    }
}

fault_code last_profile_lost(const struct last_profile *last, const struct attachment *attachment,
                             struct fault *fault)
{
    if (last->ended.code == FAULT_NONE)
        return sampling_lost(attachment, fault);
    *fault = last->ended;
    return fault->code;
}

uint64_t last_profile_use(struct last_profile *last, struct capture *capture)
{
    if (!last->kept.taken)
        return 0;
    capture_free(capture);
    *capture = last->kept;
    capture_init(&last->kept);
    return clock_now() - last->at_ns;
}
