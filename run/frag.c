#include "run/frag.h"
#include "base/list.h"
#include "jemalloc/extents/live.h"
#include "jemalloc/extents/totals.h"
#include "run/faults.h"
#include "run/readout.h"

#include <stdlib.h>
#include <string.h>

enum { ARENAS_MAX = 4096 };

static const char stage[] = "look for fragmentation";

static fault_code frag_no_memory(struct fault *fault)
{
    return fault_set(fault, FAULT_INTERNAL, ENOMEM, stage, "out of memory");
}

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
                                .slab_bytes = bin->slab_bytes};
}

/* The slab that an arena allocates from is in no count (stats.arenas.<i>.bins.<j>.nonfull_slabs).
 */
static uint64_t count_nonfull(const struct frag *frag, const struct bin *bin)
{
    const uint64_t count = bin->nonfull + frag->bins.initialized;

    return frag->bins.has_nonfull && count < bin->slabs ? count : bin->slabs;
}

static fault_code take_frag_classes(struct frag *frag, struct fault *fault)
{
    const struct bins *all = &frag->bins;
    size_t count = all->count;

    frag->classes = calloc(count + 1, sizeof *frag->classes);
    if (!frag->classes)
        return frag_no_memory(fault);
    for (size_t i = 0; i < count; i++) {
        frag->classes[i] = class_of(&all->list[i]);
        frag->classes[i].nonfull = count_nonfull(frag, &all->list[i]);
    }
    frag->class_count = count;
    frag->account.source = ACCOUNT_CALL;
    frag->account.counted.gauges = frag->bins.gauges;
    frag->account.counted.known = 0;
    for (unsigned i = 0; i < CTL_GAUGES; i++)
        if ((i != CTL_RETAINED || frag->bins.gauges.has_retained) &&
            (i != CTL_PINNED || frag->bins.gauges.has_pinned))
            frag->account.counted.known |= 1u << i;
    return FAULT_NONE;
}

/* ---- of a process, by a call ---- */

/* The statistics first: a process without profiling has them, too. */
static fault_code count_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct frag *frag = ctx;
    struct injection *injection = &attachment->injection;
    fault_code rc = build_read(injection, &attachment->instance, &frag->account.build, fault);

    bins_free(&frag->bins); /* of an attempt before */
    memset(&frag->bins, 0, sizeof frag->bins);
    if (rc == FAULT_NONE)
        rc = bins_read(injection, &attachment->instance, &frag->bins, fault);
    frag->counted = rc == FAULT_NONE;
    return rc == FAULT_NONE ? build_can_profile(&frag->account.build, fault) : rc;
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

/* The RSS, and what sampling adds, which no call tells. */
static fault_code read_account_beside(struct account *account, struct attachment *attachment,
                                      struct fault *fault)
{
    const enum way way = attachment->request.way;
    fault_code rc;

    attachment->request.way = WAY_MEMORY;
    rc = account_read(account, attachment, fault);
    attachment->request.way = way;
    return rc;
}

static fault_code take_frag_by_call(struct frag *frag, struct attachment *attachment,
                                    struct fault *fault)
{
    const struct capture_steps steps = {.first = count_held, .ctx = frag};
    fault_code rc = attachment->planned ? FAULT_NONE : attachment_prepare(attachment, fault);

    if (rc == FAULT_NONE)
        rc = choose_frag_way(attachment, fault);
    if (lacks_profiling(rc))
        rc = attachment_hold(attachment, count_held, frag, fault);
    else if (rc == FAULT_NONE)
        rc = capture_take(attachment, &frag->capture, &steps, fault);
    if (lacks_profiling(rc) && frag->counted) {
        frag->why = rc;
        rc = FAULT_NONE;
    }
    if (rc == FAULT_NONE)
        rc = read_account_beside(&frag->account, attachment, fault);
    return rc == FAULT_NONE ? take_frag_classes(frag, fault) : rc;
}

/* ---- of a process, from its records ---- */

/* The free space in the slabs of each arena, by class. */
struct arena_frees {
    uint64_t (*list)[CLASSES_MAX];
    size_t count, capacity;
};

struct slab_pass {
    const struct classes *classes;
    struct slab_total slabs[CLASSES_MAX];
    struct arena_frees arenas;
    bool no_memory;
};

static bool add_slab(void *ctx, const struct extent *extent)
{
    struct slab_pass *pass = ctx;
    struct slab_total *total = &pass->slabs[extent->class];
    struct arena_frees *arenas = &pass->arenas;

    if (!extent->slab || extent->arena >= ARENAS_MAX)
        return true;
    while (arenas->count <= extent->arena) {
        if (!LIST_GROW(arenas->list, arenas->capacity, arenas->count)) {
            pass->no_memory = true;
            return false;
        }
        memset(arenas->list[arenas->count++], 0, sizeof *arenas->list);
    }
    total->slabs++;
    total->nonfull += extent->used < extent->objects;
    total->objects += extent->used;
    arenas->list[extent->arena][extent->class] += (extent->objects - extent->used) * extent->size;
    return true;
}

/* An object that is freed between the two passes is no reason for more own ones than there are. */
static fault_code set_classes(struct frag *frag, const struct slab_pass *pass,
                              const struct live_look *look, const struct extents_pass *read,
                              struct fault *fault)
{
    frag->class_count = pass->classes->bins;
    frag->classes = calloc(frag->class_count + 1, sizeof *frag->classes);
    if (!frag->classes)
        return frag_no_memory(fault);
    for (size_t i = 0; i < frag->class_count; i++) {
        const struct extent_class *class = &pass->classes->list[i];
        const struct slab_total *total = &pass->slabs[i];
        frag->classes[i] = (struct waste_class){.size = class->size,
                                                .objects = extents_estimate(read, total->objects),
                                                .slabs = extents_estimate(read, total->slabs),
                                                .nonfull = extents_estimate(read, total->nonfull),
                                                .per_slab = class->objects,
                                                .slab_bytes = class->slab_bytes,
                                                .own = look->own[i]};
    }
    return FAULT_NONE;
}

static void sum_arenas(struct frag *frag, const struct arena_frees *arenas,
                       const struct extents_pass *read)
{
    for (size_t i = 0; i < arenas->count; i++) {
        uint64_t all = 0;
        for (size_t j = 0; j < frag->class_count; j++)
            all += extents_estimate(read, arenas->list[i][j]);
        frag->arenas += all > 0;
        frag->largest = all > frag->largest ? all : frag->largest;
    }
}

/* ---- the stacks ---- */

/* By stack and class. */
static int compare_sampled(const void *a, const void *b)
{
    const struct live_object *x = a, *y = b;

    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return x->class < y->class ? -1 : x->class > y->class;
}

struct object_text {
    const struct live *live;
    const struct live_look *look;
    uint64_t period;
};

/* jemalloc's own form (profile/heap.h), but a stack comes once for each class: its mean is exact.
 */
static bool print_sampled_text(const void *ctx, FILE *out)
{
    const struct object_text *text = ctx;
    const struct live_look *look = text->look;
    const struct live_stacks *stacks = live_stacks(text->live);

    fprintf(out, "heap_v2/%llu\n", (unsigned long long)text->period);
    for (size_t i = 0, end; i < look->sample_count; i = end) {
        const struct live_object *first = &look->samples[i];
        const uint64_t size = live_classes(text->live)->list[first->class].size;
        uint64_t count;

        for (end = i + 1; end < look->sample_count; end++)
            if (compare_sampled(first, &look->samples[end]) != 0)
                break;
        count = extents_estimate(&(struct extents_pass){.share = look->share}, end - i);
        fputc('@', out);
        for (uint32_t j = 0; first->stack != TABLE_NONE && j < stacks->list[first->stack].depth;
             j++)
            fprintf(out, " %#llx",
                    (unsigned long long)stacks->words[stacks->list[first->stack].first + j]);
        fprintf(out, "\n  t*: %llu: %llu [0: 0]\n", (unsigned long long)count,
                (unsigned long long)(count * size));
    }
    return !ferror(out);
}

static fault_code write_sampled(struct frag *frag, struct attachment *attachment,
                                const struct live *live, struct live_look *look, uint64_t period,
                                struct fault *fault)
{
    const struct object_text text = {live, look, period};
    fault_code rc;

    if (look->sample_count)
        qsort(look->samples, look->sample_count, sizeof *look->samples, compare_sampled);
    rc = sink_print(&frag->capture.text, print_sampled_text, &text, stage, "the samples", fault);
    if (rc == FAULT_NONE)
        rc = dump_complete(&attachment->target, &frag->capture.text, fault);
    frag->capture.bytes = frag->capture.text.len;
    frag->capture.taken = frag->by_object = rc == FAULT_NONE;
    return rc;
}

/* Reads the profile as jemalloc counts it, by stack: of a release whose samples are unknown. */
static fault_code take_frag_text(struct frag *frag, struct attachment *attachment,
                                 struct fault *fault)
{
    fault_code rc = readout_find(attachment, fault);

    attachment->reads = rc == FAULT_NONE;
    if (rc == FAULT_NONE)
        rc = capture_take(attachment, &frag->capture, NULL, fault);
    if (rc != FAULT_UNREADABLE && !lacks_profiling(rc))
        return rc;
    frag->why = rc;
    return FAULT_NONE;
}

static fault_code take_stacks(struct frag *frag, struct attachment *attachment,
                              const struct live *live, struct live_look *look, struct fault *fault)
{
    const struct reader_source source = attachment_source(attachment, NULL);
    const enum way way = attachment->request.way;
    struct fact_variables variables;
    struct prof_state state;
    fault_code rc;

    facts_locate(&variables, source.instance, source.modules, source.target, source.memory);
    facts_read(&variables, source.memory, &state);
    if (state.build.opt_prof != FACT_YES) { /* all that memory tells of many builds */
        frag->why = state.build.config_prof == FACT_NO ? FAULT_PROF_ABSENT : FAULT_PROF_DISABLED;
        return FAULT_NONE;
    }
    if (live_has_samples(live) && state.lg_sample_known && state.lg_sample < 63)
        return write_sampled(frag, attachment, live, look, 1ull << state.lg_sample, fault);
    attachment->request.way = WAY_MEMORY; /* a profile alone is no reason for a call */
    rc = take_frag_text(frag, attachment, fault);
    attachment->request.way = way;
    return rc;
}

/* ---- all of it ---- */

static fault_code count_frag_records(struct frag *frag, struct attachment *attachment,
                                     struct live *live, struct live_look *look, struct fault *fault)
{
    struct extents_pass out = {.limit = LIVE_LIMIT};
    struct slab_pass *pass = calloc(1, sizeof *pass);
    fault_code rc = pass ? live_take(live, look, fault) : frag_no_memory(fault);

    if (rc == FAULT_NONE) {
        pass->classes = live_classes(live);
        rc = extents_each(live_extents(live), add_slab, pass, &out, fault);
    }
    if (rc == FAULT_NONE && pass->no_memory)
        rc = frag_no_memory(fault);
    if (rc == FAULT_NONE)
        rc = account_read(&frag->account, attachment, fault);
    if (rc == FAULT_NONE)
        rc = set_classes(frag, pass, look, &out, fault);
    attachment->reads = rc == FAULT_NONE;
    if (rc == FAULT_NONE) {
        sum_arenas(frag, &pass->arenas, &out);
        for (size_t i = 0; i < look->sample_count; i++)
            if (look->samples[i].class < pass->classes->bins)
                frag->behind_sampled += pass->classes->page;
        frag->behind_sampled += look->stale * pass->classes->page;
        rc = take_stacks(frag, attachment, live, look, fault);
    }
    if (pass)
        free(pass->arenas.list);
    free(pass);
    return rc;
}

fault_code frag_take(struct frag *frag, struct attachment *attachment, struct fault *fault)
{
    const struct reader_source source = attachment_source(attachment, &attachment->deadline);
    struct live_look look = {.samples = NULL};
    struct live *live;
    fault_code rc;

    if (attachment->request.way == WAY_CALL)
        return take_frag_by_call(frag, attachment, fault);
    rc = live_open(&live, &source, true, fault);
    if (rc == FAULT_NONE)
        rc = count_frag_records(frag, attachment, live, &look, fault);
    live_look_free(&look);
    live_close(live);
    if (rc != FAULT_UNREADABLE || attachment->request.way == WAY_MEMORY)
        return rc;
    frag_free(frag);
    frag_init(frag);
    rc = readout_call_instead(attachment, fault);
    return rc == FAULT_NONE ? take_frag_by_call(frag, attachment, fault) : rc;
}
