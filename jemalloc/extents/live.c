#include "jemalloc/extents/live.h"
#include "base/list.h"
#include "host/namespaces.h"
#include "jemalloc/extents/origins.h"
#include "jemalloc/extents/profile_objects.h"
#include "jemalloc/extents/sampled.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <string.h>

static const char stage[] = "read the live objects";

/* What is known of a sampled object, of those in `found`. */
struct candidate {
    remote_addr tctx;
    uint64_t birth;
    uint32_t stack;
    bool is_doubtful, is_dropped;
};

struct live {
    struct reader_source source;
    struct extents *extents;
    struct extents_parts parts;
    const struct sampled_layout *layout; /* NULL: looks have no samples */
    struct heap_pages heap;
    struct batch batch;
    struct origins origins;
    struct profile_objects own;
    bool has_births;      /* its clock is the tool's */
    uint64_t real_offset; /* ns from CLOCK_MONOTONIC to CLOCK_REALTIME */
    struct extent *found; /* the sampled objects of a look, ascending by address */
    size_t found_count, found_capacity;
    struct candidate *candidates; /* as many */
    struct candidate **order;     /* the same by tctx */
    struct origin *origin_list;   /* at most as many */
    size_t candidate_capacity;
};

static fault_code live_no_memory(struct fault *fault)
{
    return fault_set(fault, FAULT_INTERNAL, ENOMEM, stage, "the live objects");
}

/* ---- opening ---- */

static uint64_t real_offset(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - clock_now();
}

/* The words of a record mean nothing where profiling is not enabled: nobody writes them. */
static void choose_layout(struct live *live)
{
    const struct fact_variables *variables = &live->own.reader.variables;
    struct prof_state state;

    facts_read(variables, live->source.memory, &state);
    if (state.build.opt_prof == FACT_YES && live->own.layout)
        live->layout = sampled_layout_of(version_parse(variables->version));
}

static bool open_samples(struct live *live)
{
    const struct reader_source *source = &live->source;

    live->real_offset = real_offset();
    live->has_births = source->memory->source.read ||
                       namespaces_share_clock(source->target->proc, target_via(source->target));
    live->heap.source = source;
    residence_open(&live->heap.residence, source->target);
    if (!batch_open(&live->batch, source->memory))
        return false;
    profile_objects_open(&live->own, source, &live->batch);
    choose_layout(live);
    return !live->layout ||
           origins_open(&live->origins, live->own.layout, &live->heap, &live->batch);
}

static fault_code open_live(struct live *live, bool samples, struct fault *fault)
{
    fault_code rc = extents_open(&live->extents, &live->source, fault);

    if (rc == FAULT_NONE && samples && !open_samples(live))
        rc = live_no_memory(fault);
    return rc;
}

fault_code live_open(struct live **live, const struct reader_source *source, bool samples,
                     struct fault *fault)
{
    struct live *opened = calloc(1, sizeof *opened);
    fault_code rc;

    *live = NULL;
    if (!opened)
        return live_no_memory(fault);
    opened->source = *source;
    opened->heap.residence.pages.fd = -1;
    rc = open_live(opened, samples, fault);
    if (rc == FAULT_NONE)
        *live = opened;
    else
        live_close(opened);
    return rc;
}

void live_close(struct live *live)
{
    if (!live)
        return;
    extents_close(live->extents);
    origins_close(&live->origins);
    profile_objects_close(&live->own);
    residence_close(&live->heap.residence);
    batch_close(&live->batch);
    free(live->found);
    free(live->candidates);
    free(live->order);
    free(live->origin_list);
    free(live);
}

void live_look_free(struct live_look *look)
{
    free(look->samples);
    memset(look, 0, sizeof *look);
}

bool live_has_samples(const struct live *live)
{
    return live->layout != NULL;
}

const struct classes *live_classes(const struct live *live)
{
    return extents_classes(live->extents);
}

const struct live_stacks *live_stacks(const struct live *live)
{
    return &live->origins.stacks;
}

struct extents *live_extents(const struct live *live)
{
    return live->extents;
}

/* ---- the pass ---- */

struct live_pass {
    struct live *live;
    struct live_look *look;
    bool no_memory;
};

static void add_objects(struct live_look *look, unsigned class, uint64_t objects, uint64_t size)
{
    look->objects[class] += objects;
    look->bytes[class] += objects * size;
}

static void take_away(struct live_look *look, unsigned class, uint64_t size)
{
    if (!look->objects[class] || look->bytes[class] < size)
        return;
    look->objects[class]--;
    look->bytes[class] -= size;
}

/* False: out of memory. */
static bool add_found(struct live *live, struct live_look *look, const struct extent *extent)
{
    if (live->found_count == LIVE_SAMPLES_MAX) {
        look->left_out++;
        return true;
    }
    if (!LIST_GROW(live->found, live->found_capacity, live->found_count))
        return false;
    live->found[live->found_count++] = *extent;
    return true;
}

static bool see_extent(void *ctx, const struct extent *extent)
{
    struct live_pass *pass = ctx;
    struct live *live = pass->live;
    struct sampled sampled;

    if (live->layout && sampled_take(&sampled, live->layout, live_classes(live), extent) &&
        pages_is_heap(&live->heap, sampled.tctx, live->own.layout->tctx_size)) {
        if (sampled.is_stale) {
            pass->look->stale++;
            return true;
        }
        pass->no_memory = !add_found(live, pass->look, extent);
    }
    add_objects(pass->look, extent->class, extent->used, extent->size);
    return !pass->no_memory;
}

/* ---- the stacks of the samples ---- */

static bool reserve_candidates(struct live *live)
{
    const size_t count = live->found_capacity;

    if (count <= live->candidate_capacity)
        return true;
    free(live->candidates);
    free(live->order);
    free(live->origin_list);
    live->candidates = reallocarray(NULL, count, sizeof *live->candidates);
    live->order = reallocarray(NULL, count, sizeof *live->order);
    live->origin_list = reallocarray(NULL, count, sizeof *live->origin_list);
    live->candidate_capacity = live->candidates && live->order && live->origin_list ? count : 0;
    return live->candidate_capacity > 0;
}

/* By tctx; then those that surely live, and of the others the youngest first. */
static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = *(struct candidate *const *)a, *y = *(struct candidate *const *)b;

    if (x->tctx != y->tctx)
        return x->tctx < y->tctx ? -1 : 1;
    if (x->is_doubtful != y->is_doubtful)
        return x->is_doubtful ? 1 : -1;
    if (x->birth != y->birth)
        return x->birth > y->birth ? -1 : 1;
    return (x > y) - (x < y);
}

static void make_candidates(struct live *live)
{
    struct sampled sampled;

    for (size_t i = 0; i < live->found_count; i++) {
        sampled_take(&sampled, live->layout, live_classes(live), &live->found[i]);
        live->candidates[i] = (struct candidate){.tctx = sampled.tctx,
                                                 .birth = sampled.birth,
                                                 .stack = TABLE_NONE,
                                                 .is_doubtful = sampled.is_doubtful};
        live->order[i] = &live->candidates[i];
    }
    if (live->found_count)
        qsort(live->order, live->found_count, sizeof *live->order, compare_candidates);
}

static size_t list_origins(struct live *live)
{
    size_t count = 0;

    for (size_t i = 0; i < live->found_count; i++)
        if (!count || live->origin_list[count - 1].tctx != live->order[i]->tctx)
            live->origin_list[count++] = (struct origin){.tctx = live->order[i]->tctx};
    return count;
}

/*
 * A stack is that of an object only if the object has lived on while it was read; a tctx that is
 * freed becomes that of another stack. Those that were freed meanwhile are no samples.
 */
static void drop_changed(struct live *live)
{
    struct sampled sampled;

    extents_renew(live->extents, live->found, live->found_count);
    for (size_t i = 0; i < live->found_count; i++) {
        struct candidate *candidate = &live->candidates[i];
        candidate->is_dropped =
            !live->found[i].objects ||
            !sampled_take(&sampled, live->layout, live_classes(live), &live->found[i]) ||
            sampled.tctx != candidate->tctx || sampled.birth != candidate->birth;
    }
}

/*
 * Of objects that may be freed, as many live as the tctx counts beyond those that surely live.
 * Its memory is that of something else once its last object is freed.
 */
static void drop_stale(struct live *live, struct live_look *look, struct candidate **list,
                       size_t count, const struct origin *origin)
{
    uint64_t living = origin->state == ORIGIN_PROVEN ? origin->objects : 0;

    if (origin->state == ORIGIN_UNREAD && live->layout->asked >= 0)
        living = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct extent *extent = &live->found[list[i] - live->candidates];
        list[i]->stack = origin->stack;
        if (list[i]->is_doubtful && !living) {
            look->stale++;
            take_away(look, extent->class, extent->size);
            list[i]->is_dropped = true;
        }
        living -= !list[i]->is_dropped && living > 0;
    }
}

static void drop_all_stale(struct live *live, struct live_look *look, size_t origins)
{
    for (size_t i = 0, at = 0, end; i < origins; i++, at = end) {
        for (end = at;
             end < live->found_count && live->order[end]->tctx == live->origin_list[i].tctx;)
            end++;
        drop_stale(live, look, live->order + at, end - at, &live->origin_list[i]);
    }
}

/* Objects of jemalloc itself, which no sample is of. */
static void take_away_own(struct live *live, struct live_look *look, size_t origins)
{
    const struct classes *classes = live_classes(live);

    profile_objects_count(&live->own, live->extents, live->origin_list, origins, look->own);
    for (unsigned i = 0; i < classes->count; i++) {
        uint64_t count = (uint64_t)((double)look->own[i] * look->share);
        for (; count; count--)
            take_away(look, i, classes->list[i].size);
    }
}

/* ---- a look ---- */

/* Births in the tool's clock; opt.prof_time_resolution may have chosen the other one. */
static uint64_t birth_in_look(const struct live *live, uint64_t birth, uint64_t now)
{
    if (!live->has_births)
        return 0;
    if (birth <= now || live->source.memory->source.read)
        return birth;
    birth -= live->real_offset;
    return birth <= now ? birth : 0;
}

static bool add_samples(struct live *live, struct live_look *look)
{
    const uint64_t now = clock_now();

    for (size_t i = 0; i < live->found_count; i++) {
        const struct candidate *candidate = &live->candidates[i];
        if (candidate->is_dropped)
            continue;
        if (!LIST_GROW(look->samples, look->sample_capacity, look->sample_count))
            return false;
        look->samples[look->sample_count++] =
            (struct live_object){.start = live->found[i].start,
                                 .birth = birth_in_look(live, candidate->birth, now),
                                 .stack = candidate->stack,
                                 .class = (uint16_t)live->found[i].class};
    }
    return true;
}

static bool take_live_samples(struct live *live, struct live_look *look)
{
    size_t count;

    if (!live->layout)
        return true;
    if (!reserve_candidates(live))
        return false;
    make_candidates(live);
    count = list_origins(live);
    if (!origins_read(&live->origins, live->origin_list, count))
        return false;
    drop_changed(live);
    drop_all_stale(live, look, count);
    take_away_own(live, look, count);
    return add_samples(live, look);
}

fault_code live_take(struct live *live, struct live_look *look, struct fault *fault)
{
    struct live_pass pass = {.live = live, .look = look};
    struct extents_pass out = {.limit = LIVE_LIMIT, .parts = &live->parts};
    const struct reader_source *source = &live->source;
    const struct reader reader = {.source = *source};
    uint64_t start = clock_now();
    fault_code rc;

    *look = (struct live_look){.samples = look->samples, .sample_capacity = look->sample_capacity};
    live->found_count = 0;
    rc = extents_each(live->extents, see_extent, &pass, &out, fault);
    if (rc != FAULT_NONE)
        return rc;
    look->share = out.share;
    look->at_ns = clock_now() - out.ns / 2;
    if (pass.no_memory || !take_live_samples(live, look))
        return live_no_memory(fault);
    look->took_ns = clock_now() - start;
    if (!memory_is_same(source->memory, source->instance->mallctl)) /* it ended: no samples left */
        return fault_set(fault, FAULT_EXECED, 0, stage, "%d", source->target->pid);
    return reader_check_time(&reader, fault);
}
