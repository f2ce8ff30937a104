#include "run/frag.h"
#include "base/list.h"
#include "jemalloc/extents/live.h"
#include "jemalloc/extents/totals.h"
#include "run/access.h"
#include "run/faults.h"

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
    free(frag->classes);
    capture_free(&frag->capture);
}

/* ---- the counts ---- */

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
    const struct counted_present *present = &frag->account.counted.present;

    frag->class_count = pass->classes->bins;
    frag->classes = calloc(frag->class_count + 1, sizeof *frag->classes);
    if (!frag->classes)
        return frag_no_memory(fault);
    for (size_t i = 0; i < frag->class_count; i++) {
        const struct extent_class *class = &pass->classes->list[i];
        const struct slab_total *total = &pass->slabs[i];
        struct waste_class *made = &frag->classes[i];
        *made = (struct waste_class){.size = class->size,
                                     .objects = extents_estimate(read, total->objects),
                                     .slabs = extents_estimate(read, total->slabs),
                                     .nonfull = extents_estimate(read, total->nonfull),
                                     .per_slab = class->objects,
                                     .own = look->own[i]};
        if (present->known)
            made->absent = amount_above(waste_bytes(made), present->slabs_of[i]);
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
        rc = dump_complete(&attachment->target, NULL, &frag->capture.text, fault);
    frag->capture.bytes = frag->capture.text.len;
    frag->capture.taken = frag->by_object = rc == FAULT_NONE;
    return rc;
}

/* Reads the profile as jemalloc counts it, by stack: of a release whose samples are unknown. */
static fault_code take_frag_text(struct frag *frag, struct attachment *attachment,
                                 struct fault *fault)
{
    fault_code rc = access_profile(attachment, &frag->capture, NULL, fault);

    if (rc != FAULT_UNREADABLE && !fault_lacks_profiling(rc))
        return rc;
    frag->why = rc;
    return FAULT_NONE;
}

static fault_code take_stacks(struct frag *frag, struct attachment *attachment,
                              const struct live *live, struct live_look *look, struct fault *fault)
{
    struct prof_state state;

    attachment_read_facts(attachment, &state);
    if (state.build.opt_prof != FACT_YES) { /* all that memory tells of many builds */
        frag->why = state.build.config_prof == FACT_NO ? FAULT_PROF_ABSENT : FAULT_PROF_DISABLED;
        return FAULT_NONE;
    }
    if (live_has_samples(live) && state.lg_sample_known && state.lg_sample < 63)
        return write_sampled(frag, attachment, live, look, 1ull << state.lg_sample, fault);
    return take_frag_text(frag, attachment, fault);
}

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
        rc = set_classes(frag, pass, look, &out, fault);
    if (rc == FAULT_NONE) {
        sum_arenas(frag, &pass->arenas, &out);
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
    struct live *live = NULL;
    fault_code rc = account_read_records(&frag->account, attachment, fault);

    if (rc == FAULT_NONE)
        rc = live_open(&live, &source, true, fault);
    if (rc == FAULT_NONE)
        rc = count_frag_records(frag, attachment, live, &look, fault);
    live_look_free(&look);
    live_close(live);
    if (rc == FAULT_UNREADABLE)
        rc = fault->code = FAULT_OBJECTS_UNREADABLE;
    return rc;
}
