#include "run/leak.h"
#include "jemalloc/reset.h"
#include "profile/heap.h"
#include "run/faults.h"
#include "run/interrupt.h"

#include <math.h>
#include <string.h>

struct leak_run {
    struct leak *leak;
    struct attachment *attachment;
    const struct leak_request *request;
};

void leak_init(struct leak *leak)
{
    memset(leak, 0, sizeof *leak);
    capture_init(&leak->before.capture);
    capture_init(&leak->after.capture);
    between_init(&leak->between);
}

void leak_free(struct leak *leak)
{
    capture_free(&leak->before.capture);
    capture_free(&leak->after.capture);
    between_free(&leak->between);
}

/* ---- what readout_act runs ---- */

static fault_code read_counts(struct attachment *attachment, struct leak_end *end,
                              struct fault *fault)
{
    struct build build;
    fault_code rc;

    end->rss = target_rss(&attachment->target);
    end->at_ns = clock_now();
    if (attachment->switches) /* without a hold */
        return FAULT_NONE;
    rc = stats_read(&attachment->injection, &attachment->instance, &build, &end->gauges, fault);
    end->counted = rc == FAULT_NONE;
    if (end->counted && version_within(build.version, VERSION_NUMBER(5, 0, 0), 0))
        rc = size_classes_read(&attachment->injection, &attachment->instance, &end->classes, fault);
    return rc == FAULT_STATS_ABSENT ? FAULT_NONE : rc;
}

/* In the stop of the first profile, so that nothing is sampled between the two. */
static fault_code first_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct leak *leak = ctx;
    struct reset_result result;
    fault_code rc = FAULT_NONE;

    if (leak->dropped.known)
        rc = reset_run(&attachment->injection, &attachment->instance, -1, &attachment->hooks,
                       &result, fault);
    if (rc == FAULT_NONE)
        rc = sampling_begin(attachment, &leak->sampling, fault);
    return rc == FAULT_NONE ? read_counts(attachment, &leak->before, fault) : rc;
}

static fault_code second_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct leak *leak = ctx;

    return read_counts(attachment, &leak->after, fault);
}

/* ---- prof.reset ---- */

static void count_dropped(struct leak_dropped *dropped, const struct heap_profile *profile)
{
    double bytes = 0;

    for (size_t i = 0; i < profile->line_count; i++)
        bytes +=
            heap_estimate(profile, profile->lines[i].counts.objects, profile->lines[i].counts.bytes)
                .bytes;
    *dropped = (struct leak_dropped){
        .known = true, .bytes = (uint64_t)bytes, .stacks = profile->line_count};
}

/* Takes the profile that it will drop; from now on prof.active is switched by calls. */
static fault_code prepare_reset(const struct leak_run *run, struct fault *fault)
{
    struct attachment *attachment = run->attachment;
    struct leak_dropped *dropped = &run->leak->dropped;
    struct heap_profile profile = {0};
    struct capture former;
    fault_code rc;

    capture_init(&former);
    rc = capture_take(attachment, &former, NULL, fault);
    if (rc == FAULT_NONE)
        rc = heap_parse(&profile, (const char *)former.text.bytes, former.text.len, fault);
    count_dropped(dropped, &profile);
    heap_free(&profile);
    capture_free(&former);
    if (rc == FAULT_NONE && !attachment->planned)
        rc = attachment_prepare(attachment, fault);
    if (rc == FAULT_NONE)
        attachment_note(attachment, &(struct run_note){.kind = NOTE_RESET,
                                                       .count = dropped->stacks,
                                                       .total = dropped->bytes});
    attachment_rest(attachment);
    return rc == FAULT_NONE ? attachment_renew(attachment, interrupt_flag(), fault) : rc;
}

/* ---- the two ends ---- */

static fault_code take_first(const struct leak_run *run, struct fault *fault)
{
    struct leak *leak = run->leak;
    const struct capture_steps steps = {.first = first_held, .ctx = leak};
    fault_code rc = capture_take(run->attachment, &leak->before.capture, &steps, fault);

    return sampling_begun(run->attachment, &leak->sampling, rc, fault);
}

static fault_code wait_until(const struct leak_run *run, enum run_activity activity, uint64_t until,
                             struct fault *fault)
{
    if (sampling_wait(run->attachment, &run->leak->sampling, activity, until, NULL) == PAUSE_ENDED)
        return sampling_lost(run->attachment, fault);
    return FAULT_NONE;
}

static fault_code wait_sampling(const struct leak_run *run, struct fault *fault)
{
    struct leak *leak = run->leak;
    struct between *between = &leak->between;
    struct sampling *sampling = &leak->sampling;
    const uint64_t until = sampling->began + run->request->duration_ns;
    const struct between_request request = {
        .from_ns = sampling->began,
        .until_ns = until,
        .by_thread = run->request->by_thread,
        .no_points = run->request->settle_ns}; /* only the last one would lack what is freed soon */
    fault_code rc;
    bool last;

    sampling->reported_until = until;
    between_plan(between, run->attachment, &request);
    do {
        last = between->next_ns >= until;
        rc = wait_until(run, RUN_RECORDING, last ? until : between->next_ns, fault);
        last |= rc != FAULT_NONE || sampling->interrupted;
        if (!last)
            rc = between_take(between, run->attachment, fault);
    } while (!last && rc == FAULT_NONE);
    sampling->reported_until = 0;
    return rc;
}

/* Without sampling: short-lived memory is freed, a leak stays. */
static fault_code wait_without_sampling(const struct leak_run *run, struct fault *fault)
{
    struct sampling *sampling = &run->leak->sampling;
    fault_code rc = sampling_hold(run->attachment, sampling, NULL, sampling_stop, sampling, fault);

    if (rc == FAULT_NONE && sampling->left_on)
        attachment_note(run->attachment, &(struct run_note){.kind = NOTE_NOT_SETTLED});
    if (rc == FAULT_NONE)
        rc = wait_until(run, RUN_SETTLING, clock_now() + run->request->settle_ns, fault);
    return rc;
}

static fault_code take_second(const struct leak_run *run, struct fault *fault)
{
    struct leak *leak = run->leak;
    fault_code rc;

    last_profile_make_room(&leak->between.last, run->attachment);
    rc = sampling_finish(run->attachment, &leak->sampling, &leak->after.capture, second_held, leak,
                         fault);

    if (rc == FAULT_NONE && !leak->sampling.owed)
        interrupt_patience(run->request->impatient ? 0 : 2, NULL);
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
    leak->after.counted = leak->after.classes.known = false;
    if (!leak->sampling.ended)
        leak->sampling.ended = leak->after.at_ns;
    return FAULT_NONE;
}

static fault_code run_to_end(struct leak *leak, struct attachment *attachment,
                             const struct leak_request *request, struct fault *fault)
{
    const struct leak_run run = {leak, attachment, request};
    fault_code rc;

    attachment->usual_work = WORK_REFRESH | WORK_SAMPLE;
    rc = request->reset ? prepare_reset(&run, fault) : FAULT_NONE;

    if (rc == FAULT_NONE)
        rc = take_first(&run, fault);
    if (rc == FAULT_NONE)
        rc = wait_sampling(&run, fault);
    if (rc == FAULT_NONE && request->settle_ns && !leak->sampling.interrupted)
        rc = wait_without_sampling(&run, fault);
    return rc == FAULT_NONE ? take_second(&run, fault) : rc;
}

fault_code leak_run(struct leak *leak, struct attachment *attachment,
                    const struct leak_request *request, struct fault *fault)
{
    const fault_code rc = run_to_end(leak, attachment, request, fault);

    return sampling_is_gone(attachment, &leak->sampling, rc) ? end_early(leak, rc, fault) : rc;
}

/* What is freed while it settles has ended with the sampling. */
static uint64_t end_of_series(const struct leak *leak)
{
    const uint64_t taken = leak->after.at_ns, ended = leak->sampling.ended;

    return ended && ended < taken ? ended : taken;
}

fault_code leak_write(struct leak *leak, struct attachment *attachment,
                      struct presentation *presentation, struct output *output, struct fault *fault)
{
    struct capture *after = &leak->after.capture, *before = &leak->before.capture;
    struct present_source sources[2 + BETWEEN_MAX] = {
        {.text = &after->text, .time_ns = after->time_ns, .moment_ns = end_of_series(leak)},
        {.text = &before->text, .time_ns = before->time_ns, .moment_ns = leak->before.at_ns}};
    size_t count = 2;

    for (size_t i = 0; i < leak->between.count; i++, count++)
        sources[count] = (struct present_source){.parsed = &leak->between.points[i].profile,
                                                 .moment_ns = leak->between.points[i].at_ns};
    return capture_write_series(attachment, presentation, sources, count, output, fault);
}

/* ---- estimates ---- */

/*
 * Up to 5.3.0 a sampled object that is smaller gets the smallest size of the
 * large ones, and stats.allocated counts that (5.3.0 jemalloc.c,
 * imalloc_sample; arena.c, arena_prof_promote).
 */
enum { PROMOTED = 16384 };

static bool promotes(const struct leak *leak)
{
    return version_within(leak->sampling.former.build.version, VERSION_NUMBER(4, 0, 0),
                          VERSION_NUMBER(5, 3, 0));
}

static double promoted_bytes(const struct leak *leak, const struct heap_counts *counts)
{
    double promoted = (double)counts->objects * PROMOTED;

    if (!promotes(leak))
        return 0;
    return promoted > (double)counts->bytes ? promoted - (double)counts->bytes : 0;
}

/* The numbers of a profile are rounded, so that a mean is only near its class. */
static size_t class_near(uint64_t bytes)
{
    enum { TOLERANCE = 200 };

    for (size_t i = 0; i < SIZE_CLASSES; i++) {
        uint64_t size = size_class_bytes(i), off = bytes > size ? bytes - size : size - bytes;
        if (off <= size / TOLERANCE + 1)
            return i;
    }
    return SIZE_CLASSES;
}

static void count_sampled(const struct leak *leak, struct leak_end *end,
                          const struct heap_profile *profile, const struct heap_counts *counts)
{
    size_t class = counts->objects ? class_near(counts->bytes / counts->objects) : SIZE_CLASSES;

    if (class == SIZE_CLASSES || !promotes(leak) || !profile->period)
        return;
    end->sampled_objects[class] +=
        heap_estimate(profile, counts->objects, counts->bytes).objects *
        -expm1(-(double)size_class_bytes(class) / (double)profile->period);
}

bool leak_class_growth(const struct leak *leak, uint64_t object_bytes, uint64_t *size,
                       double *growth)
{
    const struct leak_end *before = &leak->before, *after = &leak->after;
    size_t class = class_near(object_bytes);

    if (class == SIZE_CLASSES || !before->classes.known || !after->classes.known ||
        end_of_series(leak) < after->at_ns) /* what came while it settled has no sample */
        return false;
    *size = size_class_bytes(class);
    *growth = ((double)after->classes.objects[class] - (double)before->classes.objects[class] +
               after->sampled_objects[class] - before->sampled_objects[class]) *
              (double)*size;
    return true;
}

static fault_code estimate_end(const struct leak *leak, struct leak_end *end, struct fault *fault)
{
    const struct sink *text = &end->capture.text;
    struct heap_profile profile;
    fault_code rc = heap_parse(&profile, (const char *)text->bytes, text->len, fault);

    for (size_t i = 0; rc == FAULT_NONE && i < profile.line_count; i++) {
        const struct heap_counts *counts = &profile.lines[i].counts;
        end->sampled += heap_estimate(&profile, counts->objects, counts->bytes).bytes;
        end->overhead += promoted_bytes(leak, counts);
        count_sampled(leak, end, &profile, counts);
    }
    heap_free(&profile);
    return rc;
}

fault_code leak_estimate(struct leak *leak, struct fault *fault)
{
    fault_code rc = estimate_end(leak, &leak->before, fault);

    return rc == FAULT_NONE ? estimate_end(leak, &leak->after, fault) : rc;
}

double leak_covered_whole(const struct leak *leak)
{
    double allocated = (double)leak->after.gauges.allocated - leak->after.overhead;

    return allocated > 0 ? allocated : 0;
}

double leak_covered_percent(const struct leak *leak)
{
    double allocated = leak_covered_whole(leak);
    double share = allocated > 0 ? 100 * leak->after.sampled / allocated : 100;

    return share > 100 ? 100 : share;
}

double leak_seconds(const struct leak *leak)
{
    return (double)sampling_ns(&leak->sampling) / 1e9;
}
