#include "run/leak/looks.h"
#include "base/list.h"
#include "profile/judged.h"
#include "run/faults.h"
#include "run/interrupt.h"

#include <math.h>
#include <string.h>

enum {
    STEP_LEAST_NS = 20000000,
    STEP_MOST_NS = 100000000, /* at first: the operator may end it after a few seconds */
    GIVE_UP = 3,              /* looks that fail one after the other */
    COST = 10,                /* looks take one part of so many of the time */
};

#define LOOK_MOST_NS ((uint64_t)5000000000) /* of a heap of some 40 GiB or more */

/* A look leaves time for what comes after it. Returns the end of all of it. */
static uint64_t take_look_time(struct deadline *deadline)
{
    const uint64_t until = deadline->at, now = clock_now(),
                   half = until > now ? (until - now) / 2 : 0;

    deadline->at = now + (half < LOOK_MOST_NS ? half : LOOK_MOST_NS);
    return until;
}

void looks_open(struct looks *looks, struct attachment *attachment, bool samples)
{
    const struct reader_source source = attachment_source(attachment, &attachment->deadline);
    const uint64_t until = take_look_time(&attachment->deadline);
    struct fault ignored;

    memset(looks, 0, sizeof *looks);
    table_init(&looks->table);
    if (live_open(&looks->live, &source, samples, &ignored) != FAULT_NONE)
        looks->live = NULL;
    else
        looks->classes = live_classes(looks->live);
    attachment->deadline.at = until;
}

static void free_look(struct look *look)
{
    free(look->objects);
    free(look->bytes);
}

void looks_close(struct looks *looks)
{
    for (size_t i = 0; i < looks->count; i++)
        free_look(&looks->list[i]);
    free(looks->seen);
    table_free(&looks->table);
    live_look_free(&looks->newest);
    live_close(looks->live);
    memset(looks, 0, sizeof *looks);
}

/* ---- sampled objects ---- */

static bool same_object(const void *ctx, uint32_t index, const void *key)
{
    const struct looks *looks = ctx;
    const struct look_object *have = &looks->seen[index], *want = key;

    return have->start == want->start && have->birth == want->birth && have->class == want->class &&
           have->stack == want->stack;
}

static uint64_t hash_object(const struct looks *looks, const struct look_object *object)
{
    return table_hash_number(&looks->table, object->start ^ object->birth << 20);
}

/* Births tell objects apart that have the same place one after the other. */
static void see_object(struct looks *looks, const struct live_object *object)
{
    const struct look_object fresh = {object->start,       object->birth, looks->newest.at_ns,
                                      looks->newest.at_ns, object->class, object->stack};
    uint64_t hash = hash_object(looks, &fresh);
    uint32_t place = TABLE_NONE;

    looks->births |= object->birth != 0;
    if (looks->seen_count < LOOKS_SEEN_MAX &&
        LIST_GROW(looks->seen, looks->seen_capacity, looks->seen_count))
        place =
            table_put(&looks->table, hash, same_object, looks, &fresh, (uint32_t)looks->seen_count);
    if (place == TABLE_NONE)
        looks->too_many = true;
    else if (place == looks->seen_count)
        looks->seen[looks->seen_count++] = fresh;
    else
        looks->seen[place].last_ns = fresh.last_ns;
}

/* ---- one look ---- */

static uint64_t *copy_of(const uint64_t *numbers, size_t count)
{
    uint64_t *copy = reallocarray(NULL, count + 1, sizeof *copy);

    if (copy)
        memcpy(copy, numbers, count * sizeof *copy);
    return copy;
}

/* False: out of memory. */
static bool keep_counts(struct looks *looks, struct look *look)
{
    const struct live_look *newest = &looks->newest;
    const size_t classes = looks->classes->count;

    look->objects = copy_of(newest->objects, classes);
    look->bytes = copy_of(newest->bytes, classes);
    if (!look->objects || !look->bytes) {
        free_look(look);
        return false;
    }
    look->at_ns = newest->at_ns;
    for (size_t i = 0; i < newest->sample_count; i++) {
        look->promoted += newest->samples[i].class < looks->classes->bins;
        see_object(looks, &newest->samples[i]);
    }
    looks->too_many |= newest->left_out > 0;
    return true;
}

/* After one that is late, looks see the RSS alone. */
static fault_code take_in_time(struct looks *looks, struct attachment *attachment)
{
    const uint64_t until = take_look_time(&attachment->deadline);
    struct fault ignored;
    fault_code rc = live_take(looks->live, &looks->newest, &ignored);

    attachment->deadline.at = until;
    if (rc != FAULT_TOO_LATE)
        return rc;
    live_close(looks->live);
    looks->live = NULL;
    return FAULT_NONE;
}

static void add_look(struct looks *looks, struct attachment *attachment, uint64_t began,
                     fault_code rc)
{
    /* A process that is being swapped out does not shrink. */
    struct proc_usage usage;
    struct look look = {
        .at_ns = began,
        .rss = (target_status_usage(&attachment->target, &usage) ? usage.rss + usage.swap : 0)};

    if (rc == FAULT_NONE && looks->live)
        rc = take_in_time(looks, attachment);
    looks->failed = rc == FAULT_NONE ? 0 : looks->failed + 1;
    if (rc == FAULT_NONE && looks->live && !keep_counts(looks, &look))
        rc = FAULT_INTERNAL;
    if (rc == FAULT_NONE)
        looks->list[looks->count++] = look;
    /* Looks that would take more than their part of the time come less often. */
    uint64_t took_ns = clock_now() - began;
    const uint64_t pause = took_ns * COST > looks->step_ns ? took_ns * COST : looks->step_ns;
    looks->next_ns = clock_now() + pause;
    if (looks->next_ns + pause / 2 > looks->until_ns)
        looks->next_ns = UINT64_MAX;
    if (looks->count == LOOKS_MAX) {
        /* Keeps every second look: their distances stay even. */
        size_t kept = 0;
        for (size_t i = 0; i < looks->count; i++) {
            if (i % 2 == 0)
                looks->list[kept++] = looks->list[i];
            else
                free_look(&looks->list[i]);
        }
        looks->count = kept;
        looks->step_ns *= 2;
    }
    if (looks->failed >= GIVE_UP)
        looks->next_ns = UINT64_MAX;
}

void looks_add(struct looks *looks, struct attachment *attachment)
{
    add_look(looks, attachment, clock_now(), FAULT_NONE);
}

void looks_take(struct looks *looks, struct attachment *attachment)
{
    const uint64_t began = clock_now();
    const volatile sig_atomic_t *interrupted =
        *interrupt_flag() ? interrupt_again_flag() : interrupt_flag();
    struct fault ignored;
    fault_code rc = looks->live ? attachment_renew(attachment, interrupted, &ignored) : FAULT_NONE;

    add_look(looks, attachment, began, rc);
    if (looks->live)
        attachment_rest(attachment);
}

bool looks_keep(struct looks *looks, size_t count)
{
    size_t dropped = looks->count > count ? looks->count - count : 0, seen = 0;

    for (size_t i = 0; i < dropped; i++)
        free_look(&looks->list[i]);
    looks->count -= dropped;
    memmove(looks->list, looks->list + dropped, looks->count * sizeof *looks->list);
    for (size_t i = 0; looks->count && i < looks->seen_count; i++)
        if (looks->seen[i].last_ns >= looks->list[0].at_ns)
            looks->seen[seen++] = looks->seen[i];
    if (seen == looks->seen_count)
        return true;
    looks->seen_count = seen;
    table_free(&looks->table);
    table_init(&looks->table);
    for (size_t i = 0; i < seen; i++)
        if (table_put(&looks->table, hash_object(looks, &looks->seen[i]), same_object, looks,
                      &looks->seen[i], (uint32_t)i) == TABLE_NONE)
            return false;
    return true;
}

void looks_begin(struct looks *looks, struct attachment *attachment, uint64_t until_ns)
{
    const uint64_t now = clock_now(),
                   step = until_ns > now ? (until_ns - now) / (LOOKS_MAX / 2) : 0;

    looks->until_ns = until_ns;
    looks->step_ns = step < STEP_LEAST_NS  ? STEP_LEAST_NS
                     : step > STEP_MOST_NS ? STEP_MOST_NS
                                           : step;
    looks_add(looks, attachment);
}

/* ---- the verdict ---- */

bool looks_counted(const struct looks *looks)
{
    return looks->count >= 2 && looks->live != NULL;
}

double looks_total(const struct looks *looks)
{
    double total = 0;

    for (unsigned i = 0; i < looks->classes->count; i++)
        total += (double)looks->list[looks->count - 1].bytes[i];
    return total;
}

static size_t place_objects(const struct looks *looks, struct verdict_object *objects)
{
    size_t count = 0;

    for (size_t i = 0; i < looks->seen_count; i++) {
        const struct look_object *seen = &looks->seen[i];
        objects[count] = (struct verdict_object){
            .start = seen->start, .birth = seen->birth, .class = seen->class, .stack = seen->stack};
        /*
         * The numbers of the looks at its times; looks that were dropped meanwhile are none of
         * them.
         */
        size_t first = 0, end = looks->count;
        while (first < looks->count && looks->list[first].at_ns < seen->first_ns)
            first++;
        while (end > first && looks->list[end - 1].at_ns > seen->last_ns)
            end--;
        objects[count].first = (uint32_t)first;
        objects[count].last = (uint32_t)end - 1;
        count += end > first;
    }
    return count;
}

/* True if what is alive at the first look has the samples of a process that always samples. */
static bool are_all_sampled(const struct looks *looks, double period)
{
    double sampled = 0, variance = 0, whole = 0;

    for (size_t i = 0; i < looks->seen_count; i++) {
        const double size = (double)looks->classes->list[looks->seen[i].class].size;
        if (looks->seen[i].first_ns > looks->list[0].at_ns)
            continue;
        sampled += size / -expm1(-size / period);
        variance += size / -expm1(-size / period) * size / expm1(size / period);
    }
    for (unsigned i = 0; i < looks->classes->count; i++)
        whole += (double)looks->list[0].bytes[i];
    return looks->was_on && sampled + 2 * sqrt(variance) > whole;
}

bool looks_judge(const struct looks *looks, uint64_t period, size_t count, bool silent,
                 const uint32_t *of_stack, size_t stacks, struct verdict *verdict)
{
    AUTO_FREE struct verdict_object *objects =
        reallocarray(NULL, looks->seen_count + 1, sizeof *objects);
    struct verdict_look list[LOOKS_MAX];
    uint64_t sizes[CLASSES_MAX];
    struct verdict_input input = {.sizes = sizes,
                                  .class_count = looks->classes->count,
                                  .period = (double)period,
                                  .looks = list,
                                  .look_count = looks->count,
                                  .objects = objects,
                                  .stack_count = count,
                                  .began_ns = looks->births ? looks->list[0].at_ns : 0,
                                  .from_start = period && are_all_sampled(looks, (double)period),
                                  .threads_unsampled = silent || looks->too_many};

    memset(verdict, 0, sizeof *verdict);
    if (!objects)
        return false;
    for (unsigned i = 0; i < looks->classes->count; i++)
        sizes[i] = looks->classes->list[i].size;
    for (size_t i = 0; i < looks->count; i++)
        list[i] = (struct verdict_look){
            .seconds = (double)(looks->list[i].at_ns - looks->list[0].at_ns) / 1e9,
            .objects = looks->list[i].objects,
            .bytes = looks->list[i].bytes};
    if (period)
        input.object_count = place_objects(looks, objects);
    judged_objects(objects, input.object_count, of_stack, stacks);
    return verdict_make(verdict, &input);
}

struct verdict_total looks_judge_rss(const struct looks *looks)
{
    double seconds[LOOKS_MAX], bytes[LOOKS_MAX];

    for (size_t i = 0; i < looks->count; i++) {
        seconds[i] = (double)(looks->list[i].at_ns - looks->list[0].at_ns) / 1e9;
        bytes[i] = (double)looks->list[i].rss;
    }
    return verdict_of_total(seconds, bytes, looks->count);
}

bool looks_stacks(const struct looks *looks, struct heap_profile *profile)
{
    const struct live_stacks *all = live_stacks(looks->live);
    AUTO_FREE struct heap_stack *stacks = reallocarray(NULL, all->count + 1, sizeof *stacks);

    memset(profile, 0, sizeof *profile);
    for (size_t i = 0; stacks && i < all->count; i++)
        stacks[i] = (struct heap_stack){(uint32_t)all->list[i].first, all->list[i].depth};
    return stacks && heap_of_stacks(profile, all->words, stacks, all->count);
}
