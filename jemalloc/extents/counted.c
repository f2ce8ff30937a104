#include "jemalloc/extents/counted.h"
#include "base/util.h"
#include "jemalloc/extents/classes.h"
#include "jemalloc/extents/heap_pages.h"
#include "jemalloc/extents/own_data.h"
#include "jemalloc/extents/presence.h"
#include "jemalloc/extents/sampled.h"

#define V VERSION_NUMBER

#define PRESENCE_LIMIT ((uint64_t)4 << 30) /* of address space: some 0.1 s */

enum {
    EXACT_COMMITS = 92,  /* after 5.3.0: a sampled small object has only the pages that it needs */
    DIRTY_COMMITS = 337, /* after 5.2.1: stats.resident has no muzzy pages */
    PINNED_COMMITS = 22, /* after 5.3.1 */
};

struct count {
    const struct classes *classes;
    const struct heap_pages *heap;
    struct version version;
    const struct sampled_layout *sampled; /* NULL: unknown, or nothing was ever sampled */
    uint64_t pages[EXTENT_STATES + 1];    /* bytes of whole pages by state */
    uint64_t allocated, in_use, sampling, between;
    struct presence presence;
    struct counted_present present; /* without known */
    bool is_doubtful;    /* allocated, sampling: of no version, and its extents do not tell */
    bool has_huge_pages; /* of an allocator that keeps free pages without an extent */
};

static bool version_from(struct version version, unsigned number, unsigned commits)
{
    return version.number > number || (version.number == number && version.commits >= commits);
}

/* ---- one extent ---- */

static void count_slab(struct count *count, const struct extent *extent)
{
    const uint64_t bytes = extent->used * extent->size;

    count->allocated += bytes;
    count->in_use += bytes;
    count->between += extent->bytes - bytes;
}

/*
 * A sampled small object has the smallest large class, and is counted as one. Since 5.3.0-92 it
 * has its pages alone, and is counted if these are as many as those of that class.
 */
static void count_sampled_small(struct count *count, const struct extent *extent)
{
    const uint64_t page = count->classes->page,
                   large = count->classes->list[count->classes->bins].size;
    const uint64_t exact = (extent->size + page - 1) / page * page;
    bool is_exact = count->version.number ? version_from(count->version, V(5, 3, 0), EXACT_COMMITS)
                                          : extent->bytes < large;

    if (!count->version.number && extent->bytes == exact + page && extent->bytes >= large)
        count->is_doubtful |= exact < large;
    count->allocated += !is_exact || exact >= large ? large : 0;
    count->in_use += extent->size;
    count->sampling += (is_exact ? exact : large) - extent->size;
}

static void count_large(struct count *count, const struct extent *extent)
{
    struct sampled sampled;

    count->allocated += extent->size;
    if (count->sampled && sampled_take(&sampled, count->sampled, count->classes, extent) &&
        sampled.is_stale && pages_is_heap(count->heap, sampled.tctx, 1))
        count->sampling += extent->size;
    else
        count->in_use += extent->size;
}

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What is not in memory of a slab is taken for free space: its objects have been written. */
static void count_present_slab(struct count *count, const struct extent *extent, uint64_t present)
{
    const uint64_t objects = smaller_of(extent->used * extent->size, present);

    count->present.in_use += objects;
    count->present.between += present - objects;
}

/* The page behind a large object, for its random offset, is free space. */
static void count_present_large(struct count *count, const struct extent *extent, uint64_t present)
{
    const uint64_t object = smaller_of(extent->size, present);

    count->present.in_use += object;
    if (extent->class < count->classes->bins)
        count->present.sampling += present - object;
    else
        count->present.between += present - object;
}

static void count_present(struct count *count, const struct extent *extent)
{
    const remote_addr start = extent->start & ~(count->classes->page - 1);
    uint64_t present;

    if (extent->state == EXTENT_RETAINED)
        return;
    present = presence_of(&count->presence, start, extent->bytes);
    if (extent->state == EXTENT_PINNED)
        count->present.pinned += present;
    else if (extent->state != EXTENT_ACTIVE)
        count->present.free_pages += present;
    else if (extent->slab)
        count_present_slab(count, extent, present);
    else
        count_present_large(count, extent, present);
}

static bool count_extent(void *ctx, const struct extent *extent)
{
    struct count *count = ctx;

    count->has_huge_pages |= extent->is_huge_page;
    if (extent->state == EXTENT_ACTIVE && !extent->objects)
        return true;
    count->pages[extent->state] += extent->bytes;
    count_present(count, extent);
    if (extent->state != EXTENT_ACTIVE)
        return true;
    if (extent->slab)
        count_slab(count, extent);
    else if (extent->class < count->classes->bins)
        count_sampled_small(count, extent);
    else
        count_large(count, extent);
    return true;
}

/* ---- the sums ---- */

static void set_counted(struct counted *counted, enum ctl_gauge gauge, uint64_t *value, bool known,
                        uint64_t bytes)
{
    if (!known)
        return;
    *value = bytes;
    counted->known |= 1u << gauge;
}

/* What the extents alone tell. */
static void sum_extents(struct counted *counted, const struct count *count,
                        const struct extents_pass *pass)
{
    struct stats_gauges *gauges = &counted->gauges;

    set_counted(counted, CTL_ALLOCATED, &gauges->allocated, !count->is_doubtful,
                extents_estimate(pass, count->allocated));
    set_counted(counted, CTL_ACTIVE, &gauges->active, true,
                extents_estimate(pass, count->pages[EXTENT_ACTIVE]));
    set_counted(counted, CTL_RETAINED, &gauges->retained, true,
                extents_estimate(pass, count->pages[EXTENT_RETAINED]));
    gauges->has_retained = true;
    gauges->has_pinned = version_from(count->version, V(5, 3, 1), PINNED_COMMITS);
    set_counted(counted, CTL_PINNED, &gauges->pinned, gauges->has_pinned,
                extents_estimate(pass, count->pages[EXTENT_PINNED]));
    counted->in_use = extents_estimate(pass, count->in_use);
    counted->sampling = extents_estimate(pass, count->sampling);
    counted->has_sampling = !count->is_doubtful;
    counted->between = extents_estimate(pass, count->between);
    counted->has_free_pages = !count->has_huge_pages;
    if (counted->has_free_pages)
        counted->free_pages =
            extents_estimate(pass, count->pages[EXTENT_DIRTY] + count->pages[EXTENT_MUZZY]);
}

/* Up to 5.2.1 muzzy pages are part of resident. A version that is not known may be any. */
static void sum_own(struct counted *counted, const struct count *count,
                    const struct extents_pass *pass, const struct own_data *own)
{
    struct stats_gauges *gauges = &counted->gauges;
    const bool muzzy_too = !version_from(count->version, V(5, 2, 1), DIRTY_COMMITS);
    const uint64_t muzzy = count->pages[EXTENT_MUZZY];
    uint64_t pages = count->pages[EXTENT_ACTIVE] + count->pages[EXTENT_DIRTY];

    pages += (muzzy_too ? muzzy : 0) + (gauges->has_pinned ? count->pages[EXTENT_PINNED] : 0);
    set_counted(counted, CTL_RESIDENT, &gauges->resident,
                own->has_base && !count->has_huge_pages && (count->version.number || !muzzy),
                own->base_resident + extents_estimate(pass, pages));
    set_counted(counted, CTL_MAPPED, &gauges->mapped, own->has_base && own->has_stats,
                own->base_mapped + own->mapped);
    set_counted(counted, CTL_METADATA, &gauges->metadata, own->has_base && own->has_stats,
                own->base_allocated + own->internal);
    counted->internal = own->has_stats ? own->internal : 0;
}

static void sum_present(struct counted *counted, const struct count *count,
                        const struct extents_pass *pass)
{
    const struct counted_present *read = &count->present;

    if (!count->presence.known || count->has_huge_pages)
        return;
    counted->present =
        (struct counted_present){.known = true,
                                 .in_use = extents_estimate(pass, read->in_use),
                                 .sampling = extents_estimate(pass, read->sampling),
                                 .between = extents_estimate(pass, read->between),
                                 .free_pages = extents_estimate(pass, read->free_pages),
                                 .pinned = extents_estimate(pass, read->pinned)};
}

/* Whether anything is sampled tells if the words of a record mean anything. */
static const struct sampled_layout *choose_sampled(const struct reader_source *source,
                                                   struct version version)
{
    struct fact_variables variables;
    struct prof_state state;

    facts_locate(&variables, source->instance, source->modules, source->target, source->memory);
    facts_read(&variables, source->memory, &state);
    return state.build.opt_prof == FACT_YES ? sampled_layout_of(version) : NULL;
}

fault_code counted_read(struct extents *extents, const struct reader_source *source, uint64_t limit,
                        struct counted *counted, struct fault *fault)
{
    const uint64_t began = clock_now();
    struct count count = {.classes = extents_classes(extents),
                          .heap = extents_heap(extents),
                          .version = extents_version(extents)};
    struct extents_pass pass = {.limit = limit, .free_too = true};
    struct own_data own;
    fault_code rc;

    *counted = (struct counted){.at_ns = began};
    count.sampled = choose_sampled(source, count.version);
    presence_begin(&count.presence, &count.heap->residence.pages, PRESENCE_LIMIT);
    rc = extents_each(extents, count_extent, &count, &pass, fault);
    if (rc != FAULT_NONE)
        return rc;
    own_data_read(extents, &own);
    sum_extents(counted, &count, &pass);
    sum_own(counted, &count, &pass, &own);
    sum_present(counted, &count, &pass);
    counted->share = pass.share;
    counted->unsettled = pass.unsettled;
    counted->at_ns = began + (clock_now() - began) / 2;
    return FAULT_NONE;
}
