#include "run/between.h"
#include "jemalloc/dump.h"
#include "run/capture.h"
#include "run/faults.h"
#include "run/interrupt.h"
#include "run/readout.h"

#include <string.h>

enum {
    READ_PERCENT = 10, /* of the time; the target does not wait for a read */
    STOP_PERCENT = 1,  /* as top's --share */
    GIVE_UP = 3,       /* points that fail one after the other */
    SEARCH_NS = 500000000,
    STEP_MOST_NS = 1000000000, /* at first: the operator may end it after a few seconds */
    STOP_STEP_NS = 250000000,  /* at least, with stops */
};

/* One text at a time; of the points together, only what the trend needs. */
#define TEXT_LIMIT   ((size_t)256 << 20)
#define POINTS_LIMIT ((size_t)128 << 20)

void between_init(struct between *between)
{
    memset(between, 0, sizeof *between);
    sink_init(&between->text, TEXT_LIMIT);
    between->next_ns = BETWEEN_NEVER;
}

void between_free(struct between *between)
{
    for (size_t i = 0; i < between->count; i++)
        heap_free(&between->points[i].profile);
    between->count = 0;
    sink_free(&between->text);
}

/* ---- what is kept ---- */

static void drop_threads(struct heap_profile *profile)
{
    for (size_t i = 0; i < profile->thread_count; i++)
        free(profile->threads[i].name);
    free(profile->threads);
    free(profile->thread_lines);
    profile->threads = NULL;
    profile->thread_lines = NULL;
    profile->thread_count = profile->thread_line_count = 0;
}

static size_t thread_bytes(const struct heap_profile *profile)
{
    size_t bytes = profile->thread_count * sizeof *profile->threads;

    for (size_t i = 0; i < profile->thread_count; i++)
        if (profile->threads[i].name)
            bytes += strlen(profile->threads[i].name) + 1;
    return bytes;
}

static size_t profile_bytes(const struct heap_profile *profile)
{
    return profile->address_count * sizeof *profile->addresses +
           profile->frame_count * sizeof *profile->frames +
           profile->stack_count * sizeof *profile->stacks +
           (profile->line_count + profile->thread_line_count) * sizeof *profile->lines +
           thread_bytes(profile);
}

static size_t bytes_kept(const struct between *between)
{
    size_t bytes = 0;

    for (size_t i = 0; i < between->count; i++)
        bytes += profile_bytes(&between->points[i].profile);
    return bytes;
}

/* Keeps every second point: the distances stay even. */
static void thin_out(struct between *between)
{
    size_t kept = 0;

    for (size_t i = 0; i < between->count; i++) {
        if (i % 2 == 1)
            between->points[kept++] = between->points[i];
        else
            heap_free(&between->points[i].profile);
    }
    between->count = kept;
    between->step_ns *= 2;
}

static void keep_point(struct between *between, const struct heap_profile *profile, uint64_t at_ns)
{
    if (between->count == BETWEEN_MAX)
        thin_out(between);
    between->points[between->count++] = (struct between_point){*profile, at_ns};
    while (between->count && bytes_kept(between) > POINTS_LIMIT)
        thin_out(between);
}

/* ---- one point ---- */

static fault_code dump_between(struct attachment *attachment, void *ctx, struct fault *fault)
{
    const struct dump_request request = {.stream = ctx, .consent = &attachment->hooks};
    struct dump_result result;

    return dump_run(&attachment->injection, &attachment->instance, &request, &result, fault);
}

/* Without the mappings: the last profile has them. */
static fault_code take_text(struct between *between, struct attachment *attachment,
                            struct fault *fault)
{
    between->text.len = 0;
    if (attachment->reads)
        return readout_take(attachment, &between->text, fault);
    attachment->work = WORK_DUMP;
    return attachment_hold(attachment, dump_between, &between->text, fault);
}

/* In time for the last profile, which is not to wait for this one. */
static fault_code renew_in_time(const struct between *between, struct attachment *attachment,
                                struct fault *fault)
{
    const uint64_t timeout = attachment->request.timeout_ns, now = clock_now(),
                   left = between->until_ns > now ? between->until_ns - now : 1;
    fault_code rc;

    if (left < timeout)
        attachment->request.timeout_ns = left;
    rc = attachment_renew(attachment, interrupt_flag(), fault);
    attachment->request.timeout_ns = timeout;
    return rc;
}

static fault_code take_point(struct between *between, struct attachment *attachment,
                             struct fault *fault)
{
    struct heap_profile profile;
    uint64_t at_ns = clock_now();
    fault_code rc = renew_in_time(between, attachment, fault);

    attachment->search_ns = SEARCH_NS;
    if (rc == FAULT_NONE)
        rc = take_text(between, attachment, fault);
    attachment->search_ns = 0;
    attachment_rest(attachment);
    if (rc != FAULT_NONE)
        return rc;
    rc = heap_parse(&profile, (const char *)between->text.bytes, between->text.len, fault);
    if (!between->by_thread)
        drop_threads(&profile);
    if (rc == FAULT_NONE)
        keep_point(between, &profile, at_ns);
    else
        heap_free(&profile);
    return rc;
}

/* ---- when ---- */

/* Those that would end only after the sampling, by the cost of the former ones, are left out. */
static void plan_next(struct between *between, uint64_t cost_ns)
{
    uint64_t now = clock_now(), pause = governor_next(&between->governor, cost_ns);

    if (pause < between->step_ns)
        pause = between->step_ns;
    between->next_ns = now + pause;
    if (between->next_ns + 2 * cost_ns + between->step_ns / 2 > between->until_ns ||
        between->spent_ns + cost_ns > between->budget_ns)
        between->next_ns = BETWEEN_NEVER;
}

static bool point_stops(const struct attachment *attachment)
{
    return !attachment->reads || attachment->request.freeze;
}

/* How long threads of the target were stopped for its newest profile, or the read took. */
static uint64_t cost_of_profile(const struct attachment *attachment)
{
    const struct frozen_summary *frozen = &attachment->frozen;

    if (!attachment->reads)
        return attachment->last.held_ns;
    return attachment->request.freeze && frozen->times ? frozen->ns / frozen->times
                                                       : attachment->read.last.ns;
}

void between_plan(struct between *between, const struct attachment *attachment,
                  const struct between_request *request)
{
    const bool stops = point_stops(attachment);
    const unsigned percent = stops ? STOP_PERCENT : READ_PERCENT;
    uint64_t whole = request->until_ns - request->from_ns, step = whole / BETWEEN_MAX;

    between->by_thread = request->by_thread;
    between->until_ns = request->until_ns;
    if (stops && step < STOP_STEP_NS)
        step = STOP_STEP_NS;
    between->step_ns = step < STEP_MOST_NS ? step : STEP_MOST_NS;
    between->budget_ns = whole / 100 * percent;
    governor_init(&between->governor, between->step_ns, percent);
    plan_next(between, cost_of_profile(attachment));
}

void between_take(struct between *between, struct attachment *attachment)
{
    uint64_t began = clock_now();
    struct fault ignored;
    fault_code rc = take_point(between, attachment, &ignored);

    between->failed = rc == FAULT_NONE ? 0 : between->failed + 1;
    plan_next(between, point_stops(attachment) ? cost_of_profile(attachment) : clock_now() - began);
    if (between->failed >= GIVE_UP || rc == FAULT_INTERRUPTED)
        between->next_ns = BETWEEN_NEVER;
}
