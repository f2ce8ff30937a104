#include "jemalloc/extents/totals.h"

#include <string.h>

static bool add_extent(void *ctx, const struct extent *extent)
{
    struct extent_totals *totals = ctx;
    struct slab_total *slab = &totals->slab[extent->class];
    struct large_total *large = &totals->large[extent->class];

    if (extent->slab) {
        slab->slabs++;
        slab->nonfull += extent->used < extent->objects;
        slab->objects += extent->used;
    } else {
        large->objects++;
        large->bytes += extent->size;
    }
    return true;
}

fault_code totals_read(struct extents *extents, uint64_t limit, struct extent_totals *totals,
                       struct fault *fault)
{
    memset(totals, 0, sizeof *totals);
    totals->classes = *extents_classes(extents);
    totals->pass.limit = limit;
    return extents_each(extents, add_extent, totals, &totals->pass, fault);
}

struct class_total totals_of_class(const struct extent_totals *totals, unsigned class)
{
    const struct extent_class *shape = &totals->classes.list[class];
    uint64_t slabs = totals->slab[class].slabs * shape->slab_bytes;
    uint64_t small = totals->slab[class].objects * shape->size;

    return (struct class_total){
        .objects = totals->slab[class].objects + totals->large[class].objects,
        .bytes = small + totals->large[class].bytes,
        .free = slabs > small ? slabs - small : 0,
    };
}

uint64_t totals_estimate(const struct extent_totals *totals, uint64_t read)
{
    return extents_estimate(&totals->pass, read);
}
