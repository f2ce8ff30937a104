#include "jemalloc/extents/live.h"
#include "base/list.h"
#include "host/namespaces.h"
#include "jemalloc/extents/origins.h"
#include "jemalloc/extents/tree.h"
#include "jemalloc/faults.h"
#include "jemalloc/reader/roots.h"
#include "jemalloc/reader/stacks.h"
#include "jemalloc/reader/threads.h"

#include <errno.h>
#include <string.h>

static const char stage[] = "read the live objects";

enum { SEARCHES_MAX = 4 };

/*
 * For the objects that jemalloc has itself because it samples, in the heap like all others: of
 * each stack a gctx, of each stack and thread a tctx, of each thread its tdata, and hash tables.
 * They grow with the first samples, and are no growth of the program.
 */
struct profile_objects {
    const struct reader_layout *layout; /* NULL: unknown */
    struct reader reader;               /* stacks, threads: 0 if they were not found */
    struct batch *batch;
    struct model threads; /* of the last time that they could be read */
    unsigned searches;    /* for the stacks, since it was opened */
};

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

/* Finds what can be found. */
static void open_profile_objects(struct profile_objects *objects,
                                 const struct reader_source *source, struct batch *batch)
{
    struct reader *reader = &objects->reader;
    struct fault ignored;

    memset(objects, 0, sizeof *objects);
    objects->batch = batch;
    if (reader_open(reader, source, &ignored) != FAULT_NONE)
        reader->stacks = reader->threads = 0;
    /* A proof while the process allocates may find another layout than that of its version. */
    objects->layout = reader->layout = reader_layout_of(version_parse(reader->variables.version));
}

static bool open_samples(struct live *live)
{
    const struct reader_source *source = &live->source;
    const struct fact_variables *variables = &live->own.reader.variables;
    struct prof_state state;

    live->real_offset = clock_ns(CLOCK_REALTIME) - clock_now();
    live->has_births = source->memory->source.read ||
                       namespaces_share_clock(source->target->proc, target_via(source->target));
    pages_open(&live->heap, source);
    if (!batch_open(&live->batch, source->memory))
        return false;
    open_profile_objects(&live->own, source, &live->batch);
    /* The words of a record mean nothing where profiling is not enabled: nobody writes them. */
    facts_read(variables, source->memory, &state);
    if (state.build.opt_prof == FACT_YES && live->own.layout)
        live->layout = sampled_layout_of(version_parse(variables->version));
    return !live->layout ||
           origins_open(&live->origins, live->own.layout, &live->heap, &live->batch);
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
    opened->heap.map.fd = -1;
    rc = extents_open(&opened->extents, &opened->source, fault);
    if (rc == FAULT_NONE && samples && !open_samples(opened))
        rc = live_no_memory(fault);
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
    model_free(&live->own.threads);
    pages_close(&live->heap);
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

static void take_away(struct live_look *look, unsigned class, uint64_t size)
{
    if (!look->objects[class] || look->bytes[class] < size)
        return;
    look->objects[class]--;
    look->bytes[class] -= size;
}

static bool see_extent(void *ctx, const struct extent *extent)
{
    struct live_pass *pass = ctx;
    struct live *live = pass->live;
    struct live_look *look = pass->look;
    struct sampled sampled;

    if (live->layout && sampled_take(&sampled, live->layout, live_classes(live), extent) &&
        pages_is_heap(&live->heap, sampled.tctx, live->own.layout->tctx_size)) {
        if (sampled.is_stale) {
            look->stale++;
            return true;
        }
        if (live->found_count == LIVE_SAMPLES_MAX)
            look->left_out++;
        else if (LIST_GROW(live->found, live->found_capacity, live->found_count))
            live->found[live->found_count++] = *extent;
        else
            pass->no_memory = true;
    }
    look->objects[extent->class] += extent->used;
    look->bytes[extent->class] += extent->used * extent->size;
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

/* Returns the number of different tctx. */
static size_t make_candidates(struct live *live)
{
    struct sampled sampled;
    size_t count = 0;

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
static void drop_stale(struct live *live, struct live_look *look, size_t origins)
{
    size_t at = 0;

    for (size_t i = 0; i < origins; i++) {
        const struct origin *origin = &live->origin_list[i];
        uint64_t living = origin->state == ORIGIN_PROVEN ? origin->objects : 0;
        if (origin->state == ORIGIN_UNREAD && live->layout->asked >= 0)
            living = UINT64_MAX;
        for (; at < live->found_count && live->order[at]->tctx == origin->tctx; at++) {
            struct candidate *candidate = live->order[at];
            const struct extent *extent = &live->found[candidate - live->candidates];
            candidate->stack = origin->stack;
            if (candidate->is_doubtful && !living) {
                look->stale++;
                take_away(look, extent->class, extent->size);
                candidate->is_dropped = true;
            }
            living -= !candidate->is_dropped && living > 0;
        }
    }
}

/* ---- jemalloc's own objects ---- */

static void count_size(struct extents *extents, uint64_t size, uint64_t counts[CLASSES_MAX])
{
    const struct classes *classes = extents_classes(extents);

    for (unsigned i = 0; i < classes->count; i++)
        if (classes->list[i].size >= size) {
            counts[i]++;
            return;
        }
}

/* A table has an array of buckets (ckh.c, ckh_grow). */
static void count_table(struct extents *extents, const struct reader_table *table,
                        uint64_t counts[CLASSES_MAX])
{
    count_size(extents, READER_BUCKET_CELLS * sizeof(struct reader_cell) << table->lg_now, counts);
}

/* Without names, an empty table cannot be told from others (roots.c): it is searched again. */
static bool find_stacks(struct profile_objects *objects, bool has_samples)
{
    struct reader *reader = &objects->reader;
    struct fault ignored;

    if (!reader->stacks && has_samples && objects->searches < SEARCHES_MAX) {
        objects->searches++;
        if (roots_find_stacks(reader, objects->batch, &ignored) != FAULT_NONE)
            reader->stacks = 0;
    }
    return reader->stacks != 0;
}

/* The list stays as it was if it cannot be read. */
static void renew_threads(struct profile_objects *objects, const struct reader_table *table)
{
    struct reader *reader = &objects->reader;
    struct model threads = {0};

    if (!reader->threads)
        roots_find_threads(reader, objects->batch);
    if (reader->threads && threads_read(objects->batch, objects->layout, reader->threads, table,
                                        reader->source.is_still, &threads)) {
        model_free(&objects->threads);
        objects->threads = threads;
    } else {
        model_free(&threads);
    }
}

static void count_tdatas(const struct profile_objects *objects, struct extents *extents,
                         uint64_t counts[CLASSES_MAX])
{
    struct memory *memory = objects->reader.source.memory;
    struct reader_table table;
    struct extent extent;

    for (size_t i = 0; i < objects->threads.tdata_count; i++) {
        const remote_addr tdata = objects->threads.tdatas[i].address;
        if (reader_check_time(&objects->reader, NULL) != FAULT_NONE)
            return;
        if (!extents_at(extents, tdata, &extent) ||
            !table_open(&table, memory, tdata + objects->layout->tdata_table))
            continue;
        counts[extent.class]++;
        count_table(extents, &table, counts);
    }
}

/*
 * Adds the objects of each size class to counts: those of the proven origins, and of threads.
 * The first table of stacks is older than the sampling: only one that has grown counts.
 */
static void count_own(struct live *live, size_t origins, uint64_t counts[CLASSES_MAX])
{
    struct profile_objects *objects = &live->own;
    const struct reader_layout *layout = objects->layout;
    struct reader_table table;

    for (size_t i = 0; i < origins; i++) {
        const struct origin *origin = &live->origin_list[i];
        if (origin->state != ORIGIN_PROVEN || !origin->objects)
            continue;
        count_size(live->extents, reader_tctx_bytes(layout), counts);
        if (origin->is_first)
            count_size(live->extents, layout->gctx_vec + UINT64_C(8) * origin->depth, counts);
    }
    if (!find_stacks(objects, origins > 0) ||
        !table_open(&table, objects->reader.source.memory, objects->reader.stacks))
        return;
    if (table.lg_now > table.lg_min)
        count_table(live->extents, &table, counts);
    renew_threads(objects, &table);
    count_tdatas(objects, live->extents, counts);
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

static bool take_live_samples(struct live *live, struct live_look *look)
{
    const struct classes *classes = live_classes(live);
    uint64_t now;
    size_t count;

    if (!live->layout)
        return true;
    if (!reserve_candidates(live))
        return false;
    count = make_candidates(live);
    if (!origins_read(&live->origins, live->origin_list, count))
        return false;
    drop_changed(live);
    drop_stale(live, look, count);
    count_own(live, count, look->own);
    for (unsigned i = 0; i < classes->count; i++) /* no sample is of them */
        for (uint64_t n = (uint64_t)((double)look->own[i] * look->share); n; n--)
            take_away(look, i, classes->list[i].size);
    now = clock_now();
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
