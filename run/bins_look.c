#include "run/bins_look.h"
#include "jemalloc/extents/totals.h"
#include "jemalloc/facts.h"
#include "jemalloc/faults.h"
#include "jemalloc/reader/birth.h"
#include "run/faults.h"
#include "run/interrupt.h"
#include "run/pause.h"

#include <string.h>

struct bins_held {
    bool each;
    struct bins *bins;
};

static fault_code bins_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    const struct bins_held *held = ctx;

    return bins_read(&attachment->injection, &attachment->instance, held->each, held->bins, fault);
}

/* Waits for the second look; the end of the target shows at its attach. */
static fault_code bins_wait(struct bins_looks *looks, struct attachment *attachment,
                            uint64_t wait_ns, struct fault *fault)
{
    const struct pause pause = {.until = looks->first.time_ns + wait_ns,
                                .interrupted = interrupt_flag(),
                                .target = &attachment->target};

    attachment_rest(attachment);
    looks->interrupted = pause_until(&pause) == PAUSE_INTERRUPTED;
    return attachment_renew(attachment, NULL, fault);
}

/* Up to 4.5 only the start of the process is known, which is a little earlier. */
static uint64_t bins_age(const struct bins *bins, const struct attachment *attachment)
{
    return bins->arenas[0].uptime_ns ? bins->arenas[0].uptime_ns
                                     : birth_uptime_limit(&attachment->target);
}

fault_code bins_look(struct bins_looks *looks, struct attachment *attachment,
                     const struct bins_look_request *request, struct fault *fault)
{
    struct bins_held held = {request->each, &looks->first};
    fault_code rc = FAULT_NONE;

    memset(looks, 0, sizeof *looks);
    looks->two = request->wait_ns > 0;
    if (looks->two)
        rc = attachment_hold(attachment, bins_held, &held, fault);
    if (looks->two && rc == FAULT_NONE)
        rc = bins_wait(looks, attachment, request->wait_ns, fault);
    held.bins = &looks->last;
    if (rc == FAULT_NONE)
        rc = attachment_hold(attachment, bins_held, &held, fault);
    if (rc == FAULT_NONE)
        looks->interval_ns = looks->two ? looks->last.time_ns - looks->first.time_ns
                                        : bins_age(&looks->last, attachment);
    return rc;
}

/* ---- without a call ---- */

static void take_slabs(struct arena_bins *sum, const struct extent_totals *totals)
{
    for (size_t i = 0; i < totals->classes.bins; i++) {
        const struct extent_class *class = &totals->classes.list[i];
        const struct slab_total *slab = &totals->slab[i];
        sum->bins[sum->bin_count++] =
            (struct bin){.size = class->size,
                         .per_slab = class->objects,
                         .slab_bytes = class->slab_bytes,
                         .objects = totals_estimate(totals, slab->objects),
                         .slabs = totals_estimate(totals, slab->slabs),
                         .nonfull = totals_estimate(totals, slab->nonfull)};
        sum->allocated += bin_live(&sum->bins[i]);
    }
}

/* Sampled objects of a small class have an extent of their own: they count with the large ones. */
static void take_large_objects(struct arena_bins *sum, const struct extent_totals *totals)
{
    for (size_t i = 0; i < totals->classes.count; i++) {
        const struct large_total *large = &totals->large[i];
        struct large_class class = {.size = totals->classes.list[i].size,
                                    .objects = totals_estimate(totals, large->objects),
                                    .bytes = totals_estimate(totals, large->bytes)};
        if (!large->objects)
            continue;
        sum->large[sum->large_count++] = class;
        sum->allocated += large_live(&class);
    }
}

static fault_code take_totals(struct bins_looks *looks, const struct extent_totals *totals,
                              struct fault *fault)
{
    struct bins *bins = &looks->last;
    struct arena_bins *sum = calloc(1, sizeof *sum);

    if (!sum)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "read the size classes", "memory");
    bins->arenas = sum;
    bins->count = 1;
    sum->arena = -1;
    sum->bins = calloc(CLASSES_MAX, sizeof *sum->bins);
    sum->large = calloc(CLASSES_MAX, sizeof *sum->large);
    if (!sum->bins || !sum->large)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "read the size classes", "memory");
    take_slabs(sum, totals);
    take_large_objects(sum, totals);
    bins->has_nonfull = true;
    bins->gauges.allocated = sum->allocated;
    looks->share = totals->pass.share;
    looks->unsettled = totals->pass.unsettled;
    return FAULT_NONE;
}

fault_code bins_look_memory(struct bins_looks *looks, struct attachment *attachment,
                            struct fault *fault)
{
    const struct reader_source source = attachment_source(attachment, &attachment->deadline);
    struct fact_variables variables;
    struct extent_totals totals;
    struct extents *extents;
    fault_code rc = extents_open(&extents, &source, fault);

    memset(looks, 0, sizeof *looks);
    looks->memory = true;
    if (rc == FAULT_UNREADABLE)
        rc = fault->code = FAULT_OBJECTS_UNREADABLE;
    if (rc != FAULT_NONE)
        return rc;
    looks->last.time_ns = clock_now();
    rc = totals_read(extents, 0, &totals, fault);
    extents_close(extents);
    if (rc != FAULT_NONE)
        return rc;
    facts_locate(&variables, source.instance, source.modules, source.target, source.memory);
    memcpy(looks->last.version, variables.version, sizeof looks->last.version);
    return take_totals(looks, &totals, fault);
}

void bins_looks_free(struct bins_looks *looks)
{
    bins_free(&looks->first);
    bins_free(&looks->last);
}

const struct arena_bins *bins_look_former(const struct bins_looks *looks,
                                          const struct arena_bins *arena)
{
    for (size_t i = 0; i < looks->first.count; i++)
        if (looks->first.arenas[i].arena == arena->arena)
            return &looks->first.arenas[i];
    return NULL;
}
