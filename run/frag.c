#include "run/frag.h"
#include "base/util.h"
#include "run/faults.h"
#include "run/readout.h"

#include <stdlib.h>
#include <string.h>

void frag_init(struct frag *frag)
{
    memset(frag, 0, sizeof *frag);
    capture_init(&frag->capture);
}

void frag_free(struct frag *frag)
{
    bins_free(&frag->bins);
    free(frag->classes);
    capture_free(&frag->capture);
}

static struct waste_class class_of(const struct bin *bin)
{
    return (struct waste_class){.size = bin->size,
                                .objects = bin->objects,
                                .slabs = bin->slabs,
                                .nonfull = bin->slabs,
                                .per_slab = bin->per_slab,
                                .slab_bytes = bin->slab_bytes,
                                .requests = bin->requests};
}

/* The slab that an arena allocates from is in no count (stats.arenas.<i>.bins.<j>.nonfull_slabs).
 */
static uint64_t count_nonfull(const struct frag *frag, const struct bin *bin)
{
    const uint64_t count = bin->nonfull + frag->left.initialized;

    return frag->bins.has_nonfull && count < bin->slabs ? count : bin->slabs;
}

static fault_code take_frag_classes(struct frag *frag, struct fault *fault)
{
    const struct arena_bins *all = frag->bins.arenas;
    size_t count = frag->bins.count ? all->bin_count : 0;

    frag->classes = calloc(count + 1, sizeof *frag->classes);
    if (!frag->classes)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "size classes", "out of memory");
    for (size_t i = 0; i < count; i++) {
        frag->classes[i] = class_of(&all->bins[i]);
        frag->classes[i].nonfull = count_nonfull(frag, &all->bins[i]);
    }
    frag->class_count = count;
    return FAULT_NONE;
}

/* Returns the number of the class with most free space; SIZE_MAX: there is none. */
static size_t largest_class(const struct bins *bins)
{
    const struct arena_bins *all = bins->arenas;
    size_t most = SIZE_MAX;

    for (size_t i = 0; bins->count && i < all->bin_count; i++)
        if (most == SIZE_MAX || bin_waste(&all->bins[i]) > bin_waste(&all->bins[most]))
            most = i;
    return most;
}

/* ---- of a process ---- */

/* The statistics first: a process without profiling has them, too. */
static fault_code count_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct frag *frag = ctx;
    struct injection *injection = &attachment->injection;
    fault_code rc = build_read(injection, &attachment->instance, &frag->build, fault);
    size_t largest;

    bins_free(&frag->bins); /* of an attempt before */
    memset(&frag->bins, 0, sizeof frag->bins);
    if (rc == FAULT_NONE)
        rc = bins_read(injection, &attachment->instance, false, &frag->bins, fault);
    largest = rc == FAULT_NONE ? largest_class(&frag->bins) : SIZE_MAX;
    if (largest != SIZE_MAX)
        rc = left_behind_read(injection, &attachment->instance, &frag->bins, largest, &frag->left,
                              fault);
    frag->counted = rc == FAULT_NONE;
    return rc == FAULT_NONE ? build_can_profile(&frag->build, fault) : rc;
}

static bool lacks_profiling(fault_code rc)
{
    return rc == FAULT_PROF_DISABLED || rc == FAULT_PROF_ABSENT;
}

/* Chooses whether the profile is read from memory. Known to have none: returns that fault. */
static fault_code choose_frag_way(struct attachment *attachment, struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    if (attachment->request.way == WAY_CALL)
        return FAULT_NONE;
    rc = readout_find(attachment, fault);
    attachment->reads = rc == FAULT_NONE;
    return rc == FAULT_UNREADABLE ? readout_call_instead(attachment, fault) : rc;
}

static fault_code take_frag_profile(struct frag *frag, struct attachment *attachment,
                                    struct fault *fault)
{
    const struct capture_steps steps = {.first = count_held, .ctx = frag};
    fault_code rc = choose_frag_way(attachment, fault);

    if (lacks_profiling(rc))
        return attachment_hold(attachment, count_held, frag, fault);
    return rc == FAULT_NONE ? capture_take(attachment, &frag->capture, &steps, fault) : rc;
}

fault_code frag_take(struct frag *frag, struct attachment *attachment, struct fault *fault)
{
    fault_code rc = take_frag_profile(frag, attachment, fault);

    if (lacks_profiling(rc) && frag->counted) {
        frag->why = rc;
        rc = FAULT_NONE;
    }
    if (rc == FAULT_NONE)
        rc = target_usage(&attachment->target, &frag->process, &frag->source, fault);
    return rc == FAULT_NONE ? take_frag_classes(frag, fault) : rc;
}

/* ---- of a report ---- */

fault_code frag_parse(struct frag *frag, const char *json, size_t len, struct fault *fault)
{
    fault_code rc = bins_parse(&frag->bins, json, len, fault);
    size_t largest = rc == FAULT_NONE ? largest_class(&frag->bins) : SIZE_MAX;

    if (largest != SIZE_MAX)
        left_behind_take(&frag->bins, largest, &frag->left);
    frag->counted = rc == FAULT_NONE;
    return rc == FAULT_NONE ? take_frag_classes(frag, fault) : rc;
}
