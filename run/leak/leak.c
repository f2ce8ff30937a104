#include "run/leak/leak.h"
#include "profile/heap.h"
#include "profile/judged.h"
#include "run/access.h"
#include "run/activating.h"
#include "run/faults.h"
#include "run/interrupt.h"

#include <errno.h>
#include <math.h>
#include <string.h>

void leak_init(struct leak *leak, const struct leak_request *request)
{
    const struct grow_request grow = {
        .duration_ns = request->duration_ns, .period = request->period, .quiet = request->quiet};

    memset(leak, 0, sizeof *leak);
    leak->request = *request;
    capture_init(&leak->before.capture);
    capture_init(&leak->after.capture);
    between_init(&leak->between);
    grow_init(&leak->grow, &grow);
}

void leak_free(struct leak *leak)
{
    capture_free(&leak->before.capture);
    capture_free(&leak->after.capture);
    between_free(&leak->between);
    looks_close(&leak->looks);
    verdict_free(&leak->verdict);
    grow_free(&leak->grow);
}

/*
 * More threads than these that start meanwhile: jemalloc seeds the sampling of a thread with the
 * address of its data (5.3.0 tsd.c, tsd_prng_state_init), which the next thread has again, so that
 * all of them sample at the same byte, or none.
 */
enum { STARTED_MOST = 2, MOMENT_NS = 500000000 };

/* ---- the time between ---- */

struct watch {
    struct leak *leak;
    struct attachment *attachment;
    uint64_t next; /* CLOCK_MONOTONIC: a look or a profile is due */
};

/* Page faults are taken out of the kernel's buffers ten times a second. */
static bool is_something_due(void *ctx)
{
    struct watch *watch = ctx;
    struct leak *leak = watch->leak;
    struct fault fault;

    if (leak->grows && leak->grow.ended.code == FAULT_NONE)
        grow_step(&leak->grow, clock_now(), &fault);
    return clock_now() >= watch->next || leak->grow.ended.code != FAULT_NONE;
}

static fault_code wait_until(struct leak *leak, struct attachment *attachment,
                             enum run_activity activity, uint64_t until, struct fault *fault)
{
    struct watch watch = {leak, attachment, until};

    if (sampling_wait_for(attachment, &leak->sampling, activity, until, is_something_due, &watch) ==
        PAUSE_ENDED)
        return sampling_lost(attachment, fault);
    if (leak->grow.ended.code != FAULT_NONE)
        *fault = leak->grow.ended;
    return leak->grow.ended.code;
}

/* Page faults have names for what nothing else sees; their absence is no failure. */
static void begin_faults(struct leak *leak, struct attachment *attachment)
{
    if (leak->request.no_faults)
        return;
    leak->grows = grow_begin(&leak->grow, attachment, &leak->no_grow) == FAULT_NONE;
    attachment_rest(attachment);
}

static void tell_look(const struct leak *leak)
{
    if (leak->request.looked)
        leak->request.looked(leak->request.ctx);
}

/* Waits for the duration; looks and profiles between are taken when they are due. */
static fault_code watch_all(struct leak *leak, struct attachment *attachment,
                            enum run_activity activity, struct fault *fault)
{
    const uint64_t until = leak->began + leak->request.duration_ns;
    struct between *between = &leak->between;
    struct looks *looks = &leak->looks;
    fault_code rc = FAULT_NONE;
    uint64_t next = 0;
    bool profile;

    leak->sampling.reported_until = until;
    while (rc == FAULT_NONE && !leak->sampling.interrupted && next < until) {
        next = between->next_ns < looks->next_ns ? between->next_ns : looks->next_ns;
        next = next < until ? next : until;
        rc = wait_until(leak, attachment, activity, next, fault);
        if (rc != FAULT_NONE || leak->sampling.interrupted)
            break;
        profile = between->next_ns <= clock_now() && next < until;
        if (profile)
            rc = between_take(between, attachment, fault);
        if (rc == FAULT_NONE && (profile || looks->next_ns <= clock_now())) {
            looks_take(looks, attachment); /* no profile is newer, should the process end */
            tell_look(leak);
        }
    }
    leak->sampling.reported_until = 0;
    leak->ended_ns = leak->waited_ns = clock_now();
    if (rc == FAULT_NONE) {
        looks_take(looks, attachment);
        tell_look(leak);
    }
    return rc;
}

/* One timeout bounds all that follows the waiting, and each part of it has a moment. */
static uint64_t time_left(const struct leak *leak, uint64_t timeout)
{
    const uint64_t used = clock_now() - leak->waited_ns;

    return used < timeout ? timeout - used + MOMENT_NS : MOMENT_NS;
}

static fault_code finish_faults(struct leak *leak, struct attachment *attachment,
                                struct fault *fault)
{
    const uint64_t timeout = attachment->request.timeout_ns;
    fault_code rc;

    attachment->request.timeout_ns = time_left(leak, timeout);
    rc = leak->grows ? grow_finish(&leak->grow, fault) : FAULT_NONE;
    attachment->request.timeout_ns = timeout;
    if (leak->ended.code != FAULT_NONE
            ? rc != FAULT_NONE
            : rc == FAULT_TOO_LATE && leak->looks.live && !leak->request.only_faults) {
        leak->no_grow = *fault;
        leak->grows = false;
        rc = FAULT_NONE;
    }
    leak->silent |= leak->grow.lack.started > STARTED_MOST;
    attachment_rest(attachment);
    return rc;
}

/* ---- with profiling ---- */

static fault_code take_first(struct leak *leak, struct attachment *attachment, struct fault *fault)
{
    struct leak_end *before = &leak->before;
    fault_code rc = sampling_begin(attachment, &leak->sampling, fault);

    before->rss = target_rss(&attachment->target);
    if (rc == FAULT_NONE)
        rc = access_profile(attachment, &before->capture, NULL, fault);
    before->at_ns = before->capture.at_ns;
    leak->profiled = rc == FAULT_NONE;
    if (leak->profiled)
        sampling_tell(attachment, &leak->sampling);
    leak->began = leak->sampling.began;
    return rc;
}

/* What they allocate is in the counts, but in no sample. */
static bool may_be_silent(const struct leak *leak, struct attachment *attachment)
{
    const struct sampling *sampling = &leak->sampling;
    bool silent = sampling->former.thread_active_init == FACT_NO || sampling->activation.missed ||
                  sampling->activation.unsure;
    struct thread_view view;
    struct fault ignored;

    if (silent)
        return true;
    silent = thread_view_read(&view, attachment, 0, &ignored) != FAULT_NONE ||
             view.threads.by_sampling[THREAD_ASLEEP] || view.threads.by_sampling[THREAD_OFF];
    thread_view_free(&view);
    return silent;
}

static fault_code watch_sampling(struct leak *leak, struct attachment *attachment,
                                 struct fault *fault)
{
    const uint64_t until = leak->began + leak->request.duration_ns;
    const struct between_request request = {
        .from_ns = leak->began,
        .until_ns = until,
        .by_thread = leak->request.by_thread,
        .no_points = leak->request.settle_ns}; /* only the last one would lack what is freed soon */

    leak->looks.was_on = prof_is_active(&leak->sampling.former);
    leak->silent = may_be_silent(leak, attachment);
    begin_faults(leak, attachment);
    if (access_reads(attachment))
        between_plan(&leak->between, attachment, &request);
    return watch_all(leak, attachment, RUN_RECORDING, fault);
}

/* Without sampling: short-lived memory is freed, a leak stays. */
static fault_code wait_without_sampling(struct leak *leak, struct attachment *attachment,
                                        struct fault *fault)
{
    struct sampling *sampling = &leak->sampling;
    fault_code rc = sampling_stop(attachment, sampling, fault);

    if (rc == FAULT_NONE && sampling->left_on)
        attachment_note(attachment, &(struct run_note){.kind = NOTE_NOT_SETTLED});
    if (rc == FAULT_NONE)
        rc = wait_until(leak, attachment, RUN_SETTLING, clock_now() + leak->request.settle_ns,
                        fault);
    leak->waited_ns = clock_now();
    return rc;
}

static fault_code take_second(struct leak *leak, struct attachment *attachment, struct fault *fault)
{
    const uint64_t timeout = attachment->request.timeout_ns;
    fault_code rc;

    last_profile_make_room(&leak->between.last, attachment);
    attachment->request.timeout_ns = time_left(leak, timeout);
    leak->after.rss = target_rss(&attachment->target);
    rc = sampling_finish(attachment, &leak->sampling, &leak->after.capture, fault);
    leak->after.at_ns = leak->after.capture.at_ns;
    attachment->request.timeout_ns = timeout;
    if (rc == FAULT_NONE && !leak->sampling.owed)
        interrupt_patience(leak->request.impatient ? 0 : 2, NULL);
    return rc;
}

/* With the newest profile as the second one. The fault is then leak->ended. */
static fault_code end_early(struct leak *leak, fault_code end, const struct fault *fault)
{
    const uint64_t age = between_use_last(&leak->between, &leak->after.capture, &leak->after.at_ns);

    if (!age)
        return end;
    leak->ended = *fault;
    leak->sampling.cut_short_ns = age;
    leak->after.rss = leak->between.last.rss;
    if (!leak->sampling.ended)
        leak->sampling.ended = leak->after.at_ns;
    return FAULT_NONE;
}

fault_code leak_run(struct leak *leak, struct attachment *attachment, struct fault *fault)
{
    fault_code rc;

    looks_open(&leak->looks, attachment, true);
    /* what is allocated from the start of the sampling on is after it */
    looks_begin(&leak->looks, attachment, clock_now() + leak->request.duration_ns);
    rc = take_first(leak, attachment, fault);
    if (rc == FAULT_NONE)
        rc = watch_sampling(leak, attachment, fault);
    if (rc == FAULT_NONE)
        leak->silent |= may_be_silent(leak, attachment);
    if (rc == FAULT_NONE && leak->request.settle_ns && !leak->sampling.interrupted)
        rc = wait_without_sampling(leak, attachment, fault);
    if (rc == FAULT_NONE)
        rc = take_second(leak, attachment, fault);
    leak->interrupted = leak->sampling.interrupted;
    if (sampling_is_gone(attachment, &leak->sampling, rc))
        rc = end_early(leak, rc, fault);
    return rc == FAULT_NONE ? finish_faults(leak, attachment, fault) : rc;
}

/* ---- without ---- */

fault_code leak_watch(struct leak *leak, struct attachment *attachment, struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    leak->profiled = false;
    leak->began = clock_now();
    looks_close(&leak->looks);
    if (attachment->instance.mallctl)
        looks_open(&leak->looks, attachment, false);
    looks_begin(&leak->looks, attachment, leak->began + leak->request.duration_ns);
    tell_look(leak);
    begin_faults(leak, attachment);
    if (leak->grows && leak->request.only_faults)
        leak->no_grow = leak->grow.refused;
    if (leak->no_grow.code != FAULT_NONE && (leak->request.only_faults || !leak->looks.live)) {
        *fault = leak->no_grow;
        return attachment_explain(attachment, fault->code, fault);
    }
    rc = watch_all(leak, attachment, RUN_GROWING, fault);
    leak->interrupted = leak->sampling.interrupted;
    if (fault_is_gone(rc)) {
        leak->ended = *fault;
        rc = FAULT_NONE;
    }
    rc = rc == FAULT_NONE ? finish_faults(leak, attachment, fault) : rc;
    if (!leak->looks.live) /* nothing has renewed them */
        grow_hand_over_modules(&leak->grow);
    return rc;
}

/* ---- the result ---- */

/* The counts bound what the samples say. */
static bool judge_samples(struct leak *leak, struct presented *presented)
{
    struct samples *samples = &presented->samples;
    const struct verdict_total total = looks_judge_rss(&leak->looks);

    if (!looks_counted(&leak->looks)) {
        judged_by_total(samples, &total);
        return true;
    }
    leak->judged = looks_judge(&leak->looks, samples->period, samples->count, leak->silent,
                               presented->of_stack, presented->stack_count, &leak->verdict);
    if (leak->judged)
        judged_by_verdict(samples, &leak->verdict);
    return leak->judged;
}

static double sum_sampled(const struct heap_profile *profile)
{
    double sum = 0;

    for (size_t i = 0; i < profile->line_count; i++) {
        const struct heap_counts *counts = &profile->lines[i].counts;
        sum += heap_estimate(profile, counts->objects, counts->bytes).bytes;
    }
    return sum;
}

fault_code leak_read(struct leak *leak, struct attachment *attachment,
                     struct presentation *presentation, struct presented *presented,
                     struct fault *fault)
{
    struct capture *after = &leak->after.capture, *before = &leak->before.capture;
    /* What is freed while it settles has ended with the sampling. */
    const uint64_t taken = leak->after.at_ns, ended = leak->sampling.ended;
    struct present_source sources[2 + BETWEEN_MAX] = {
        {.text = &after->text,
         .time_ns = after->time_ns,
         .moment_ns = ended && ended < taken ? ended : taken},
        {.text = &before->text, .time_ns = before->time_ns, .moment_ns = leak->before.at_ns}};
    struct heap_profile stacks = {0};
    bool good = !looks_counted(&leak->looks) || looks_stacks(&leak->looks, &stacks);
    fault_code rc = FAULT_NONE;
    size_t count = 2;

    for (size_t i = 0; i < leak->between.count; i++, count++)
        sources[count] = (struct present_source){.parsed = &leak->between.points[i].profile,
                                                 .moment_ns = leak->between.points[i].at_ns};
    presentation->stacks = &stacks;
    if (good)
        rc = capture_read(attachment, presentation, sources, count, presented, fault);
    presentation->stacks = NULL;
    heap_free(&stacks);
    if (rc != FAULT_NONE)
        return rc;
    if (!good || !judge_samples(leak, presented))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "compare", "the stacks");
    leak->sampled = sum_sampled(&presented->parts[0].profile);
    return FAULT_NONE;
}

void leak_judge(struct leak *leak)
{
    leak->judged = looks_counted(&leak->looks) &&
                   looks_judge(&leak->looks, 0, 0, false, NULL, 0, &leak->verdict);
}

/* ---- estimates ---- */

double leak_covered_whole(const struct leak *leak)
{
    return looks_counted(&leak->looks) ? looks_total(&leak->looks) : 0;
}

double leak_covered_percent(const struct leak *leak)
{
    double allocated = leak_covered_whole(leak);
    double share = allocated > 0 ? 100 * leak->sampled / allocated : 100;

    return share > 100 ? 100 : share;
}

double leak_seconds(const struct leak *leak)
{
    return (double)(leak->ended_ns - leak->began) / 1e9;
}
