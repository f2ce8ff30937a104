#include "run/grow/grow_profile.h"
#include "host/task.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct writing {
    const struct grow_sites *sites;
    const struct grow_site **order; /* the sites of a stack are together */
    struct grow_stacks *stacks;
    uint64_t page; /* bytes */
    FILE *out;
};

static int compare_calls(const struct grow_sites *sites, const struct grow_site *a,
                         const struct grow_site *b)
{
    if (a->depth != b->depth)
        return a->depth < b->depth ? -1 : 1;
    return memcmp(sites->calls + a->first, sites->calls + b->first,
                  a->depth * sizeof *sites->calls);
}

static int by_calls(const void *a, const void *b, void *sites)
{
    const struct grow_site *const *x = a, *const *y = b;
    int order = compare_calls(sites, *x, *y);

    return order ? order : ((*x)->tid > (*y)->tid) - ((*x)->tid < (*y)->tid);
}

static int by_tid(const void *a, const void *b)
{
    const struct grow_site *const *x = a, *const *y = b;

    return ((*x)->tid > (*y)->tid) - ((*x)->tid < (*y)->tid);
}

/* "28: 114688 [30: 122880]" of all sites in the list */
static void write_site_pages(const struct writing *writing, size_t first, size_t count)
{
    double growth = 0, touched = 0;
    uint64_t pages, all;

    for (size_t i = first; i < first + count; i++) {
        growth += grow_site_growth(writing->order[i]);
        touched += writing->order[i]->faults;
    }
    pages = (uint64_t)llround(growth);
    all = (uint64_t)llround(fmax(touched, growth));
    fprintf(writing->out, "%" PRIu64 ": %" PRIu64 " [%" PRIu64 ": %" PRIu64 "]", pages,
            pages * writing->page, all, all * writing->page);
}

/*
 * Readers look up the address before, as that of the call; the innermost one is the
 * address of the instruction itself.
 */
static void write_site_calls(const struct writing *writing, const struct grow_site *site)
{
    fputc('@', writing->out);
    for (uint32_t i = 0; i < site->depth; i++)
        fprintf(writing->out, " 0x%" PRIx64, writing->sites->calls[site->first + i] + (i == 0));
}

/* Sums up the sites of a stack. */
static void put_stack_growth(const struct writing *writing, size_t first, size_t count)
{
    const uint32_t number = (uint32_t)writing->stacks->count++;
    struct grow_stack *stack = &writing->stacks->list[number];

    for (size_t i = first; i < first + count; i++) {
        writing->stacks->of_site[writing->order[i] - writing->sites->list] = number;
        for (enum grow_kind kind = 0; kind < GROW_KINDS; kind++)
            stack->growth[kind] += grow_site_part(writing->order[i], kind);
    }
}

static void write_all_sites(const struct writing *writing)
{
    const struct grow_sites *sites = writing->sites;

    qsort_r(writing->order, sites->count, sizeof *writing->order, by_calls,
            (void *)(uintptr_t)sites);
    for (size_t i = 0, n; i < sites->count; i += n) {
        for (n = 1; i + n < sites->count &&
                    !compare_calls(sites, writing->order[i], writing->order[i + n]);)
            n++;
        put_stack_growth(writing, i, n);
        write_site_calls(writing, writing->order[i]);
        fputs("\n  t*: ", writing->out);
        write_site_pages(writing, i, n);
        for (size_t k = i; k < i + n; k++) {
            fprintf(writing->out, "\n  t%d: ", (int)writing->order[k]->tid);
            write_site_pages(writing, k, 1);
        }
        fputc('\n', writing->out);
    }
}

void grow_stacks_free(struct grow_stacks *stacks)
{
    free(stacks->list);
    free(stacks->of_site);
    *stacks = (struct grow_stacks){.list = NULL};
}

struct growth_text {
    const struct grow_sites *sites;
    const struct grow_pages *pages;
    const struct target *target;
    struct grow_stacks *stacks;
};

static bool write_growth_profile(const void *ctx, FILE *out)
{
    const struct growth_text *text = ctx;
    const struct grow_sites *sites = text->sites;
    const struct grow_pages *pages = text->pages;
    AUTO_FREE const struct grow_site **order = calloc(sites->count + 1, sizeof *order);
    const struct writing writing = {sites, order, text->stacks, pages->map.page, out};

    grow_stacks_free(text->stacks); /* the text may be written again */
    text->stacks->list = calloc(sites->count + 1, sizeof *text->stacks->list);
    text->stacks->of_site = calloc(sites->count + 1, sizeof *text->stacks->of_site);
    if (!order || !text->stacks->list || !text->stacks->of_site)
        return false;
    for (size_t i = 0; i < sites->count; i++)
        order[i] = &sites->list[i];
    fputs("heap_v2/1\n  t*: ", out);
    write_site_pages(&writing, 0, sites->count);
    fputc('\n', out);
    qsort(order, sites->count, sizeof *order, by_tid);
    for (size_t i = 0, n; i < sites->count; i += n) {
        const pid_t tid = order[i]->tid;
        struct proc_stat stat;
        for (n = 1; i + n < sites->count && order[i + n]->tid == tid;)
            n++;
        fprintf(out, "  t%d: ", (int)tid);
        write_site_pages(&writing, i, n);
        if (thread_stat(text->target->proc, text->target->pid, tid, &stat) == 0 &&
            !strchr(stat.comm, '\n'))
            fprintf(out, " %s", stat.comm);
        fputc('\n', out);
    }
    write_all_sites(&writing);
    fputs("\nMAPPED_LIBRARIES:\n", out);
    fwrite(pages->maps, 1, pages->maps_len, out);
    return true;
}

fault_code grow_profile_make(const struct grow_sites *sites, const struct grow_pages *pages,
                             const struct target *target, struct sink *sink,
                             struct grow_stacks *stacks, struct fault *fault)
{
    const struct growth_text text = {sites, pages, target, stacks};

    return sink_print(sink, write_growth_profile, &text, "report", "the profile", fault);
}
