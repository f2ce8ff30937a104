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

/* jemalloc does not count the slab that an arena allocates from (stats.arenas.<i>.bins). */
static uint64_t count_nonfull(const struct bins *bins, size_t number)
{
    uint64_t count = bins->arenas->bins[number].nonfull, slabs = bins->arenas->bins[number].slabs;

    if (!bins->has_nonfull)
        return slabs;
    for (size_t i = 1; i < bins->count; i++)
        count += number < bins->arenas[i].bin_count && bins->arenas[i].bins[number].slabs > 0;
    return count < slabs ? count : slabs;
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
        frag->classes[i].nonfull = count_nonfull(&frag->bins, i);
    }
    frag->class_count = count;
    return FAULT_NONE;
}

/* ---- of a process ---- */

/* The statistics first: a process without profiling has them, too. */
static fault_code count_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct frag *frag = ctx;
    struct injection *injection = &attachment->injection;
    fault_code rc = build_read(injection, &attachment->instance, &frag->build, fault);

    bins_free(&frag->bins); /* of an attempt before */
    memset(&frag->bins, 0, sizeof frag->bins);
    if (rc == FAULT_NONE)
        rc = bins_read(injection, &attachment->instance, true, &frag->bins, fault);
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

    frag->counted = rc == FAULT_NONE;
    return rc == FAULT_NONE ? take_frag_classes(frag, fault) : rc;
}

struct frag_left frag_left_behind(const struct frag *frag, uint64_t size)
{
    struct frag_left left = {0};

    for (size_t i = 1; i < frag->bins.count; i++) {
        const struct arena_bins *arena = &frag->bins.arenas[i];
        for (size_t j = 0; arena->threads == 0 && j < arena->bin_count; j++) {
            const struct waste_class class = class_of(&arena->bins[j]);
            uint64_t bytes = class.size == size ? waste_bytes(&class) : 0;
            left.arenas += bytes > 0;
            if (__builtin_add_overflow(left.bytes, bytes, &left.bytes))
                left.bytes = UINT64_MAX;
        }
    }
    return left;
}
