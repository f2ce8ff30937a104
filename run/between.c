#include "run/between.h"

#include <string.h>

/* Of the points together: only what the trend needs. */
#define POINTS_LIMIT ((size_t)128 << 20)

void between_init(struct between *between)
{
    memset(between, 0, sizeof *between);
    last_profile_init(&between->last);
    between->next_ns = BETWEEN_NEVER;
}

void between_free(struct between *between)
{
    for (size_t i = 0; i < between->count; i++)
        heap_free(&between->points[i].profile);
    between->count = 0;
    last_profile_free(&between->last);
}

/* ---- what is kept ---- */

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

/* ---- when ---- */

/* A point close to the last profile would add nothing to it. */
static void add_point(struct between *between)
{
    const struct sink *text = &between->last.kept.text;
    const uint64_t at_ns = between->last.at_ns;
    struct heap_profile profile;
    struct fault ignored;

    if (at_ns < between->point_ns || at_ns + between->step_ns / 2 > between->points_until_ns)
        return;
    if (heap_parse_once(&profile, (const char *)text->bytes, text->len, between->by_thread, NULL,
                        &ignored) != FAULT_NONE) {
        heap_free(&profile);
        return;
    }
    keep_point(between, &profile, at_ns);
    between->point_ns = at_ns + between->step_ns;
}

static void plan_next(struct between *between)
{
    const struct last_profile *last = &between->last;

    between->next_ns = last->next_ns < between->until_ns ? last->next_ns : BETWEEN_NEVER;
}

void between_plan(struct between *between, const struct attachment *attachment,
                  const struct between_request *request)
{
    const uint64_t step = (request->until_ns - request->from_ns) / BETWEEN_MAX;
    const struct last_profile_request keep = {.step_ns = step < LAST_STEP_NS ? step : LAST_STEP_NS,
                                              .percent = LAST_READ_PERCENT,
                                              .names = true};

    between->by_thread = request->by_thread;
    between->until_ns = request->until_ns;
    between->points_until_ns = request->no_points ? 0 : request->until_ns;
    between->step_ns = keep.step_ns;
    between->point_ns = request->from_ns + between->step_ns;
    last_profile_plan(&between->last, &keep, attachment->read.last.ns);
    plan_next(between);
}

fault_code between_take(struct between *between, struct attachment *attachment, struct fault *fault)
{
    struct last_profile *last = &between->last;
    const uint64_t former = last->at_ns;

    last_profile_take(last, attachment, between->until_ns);
    if (last->at_ns != former)
        add_point(between);
    plan_next(between);
    if (last->ended.code != FAULT_NONE)
        *fault = last->ended;
    return last->ended.code;
}

uint64_t between_use_last(struct between *between, struct capture *capture, uint64_t *at_ns)
{
    struct between_point *newest = &between->points[between->count ? between->count - 1 : 0];
    const uint64_t age = last_profile_use(&between->last, capture);

    if (age)
        *at_ns = between->last.at_ns;
    if (age && between->count && newest->at_ns == *at_ns) {
        heap_free(&newest->profile);
        between->count--;
    }
    return age;
}
