#include "run/recent_profile.h"
#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What the samples stand for: objects and bytes. */
struct stand {
    double objects, bytes;
};

/* A line of the profile: a stack, or a stack in one thread. */
struct recent_sums {
    struct stand alive, all;
};

static void add_stand(struct stand *sum, double period, uint64_t usable)
{
    double size = (double)usable;
    double objects = period > 1 && size > 0 ? 1 / -expm1(-size / period) : 1;

    sum->objects += objects;
    sum->bytes += objects * size;
}

static void add_record(struct recent_sums *sums, double period, const struct recent_record *record)
{
    add_stand(&sums->all, period, record->usable);
    if (!record->released)
        add_stand(&sums->alive, period, record->usable);
}

/* The counts from which heap_estimate makes this sum. */
static void write_stand(const struct stand *sum, double period, FILE *out)
{
    double mean = sum->objects > 0 ? sum->bytes / sum->objects : 0;
    double objects = period > 1 && mean > 0 ? sum->objects * -expm1(-mean / period) : sum->objects;
    double counted = fmin(round(objects), 9e18), bytes = fmin(round(counted * mean), 9e18);

    fprintf(out, "%" PRIu64 ": %" PRIu64, (uint64_t)counted, (uint64_t)bytes);
}

static void write_sums(const struct recent_sums *sums, double period, FILE *out)
{
    write_stand(&sums->alive, period, out);
    fputs(" [", out);
    write_stand(&sums->all, period, out);
    fputs("]", out);
}

/* ---- records in the order of a profile ---- */

static int by_uid(const void *a, const void *b)
{
    const struct recent_record *const *x = a, *const *y = b;
    uint64_t p = (*x)->allocation.thread.uid, q = (*y)->allocation.thread.uid;

    return p < q ? -1 : p > q;
}

static int by_stack_and_uid(const void *a, const void *b)
{
    const struct recent_record *const *x = a, *const *y = b;
    uint32_t p = (*x)->allocation.stack, q = (*y)->allocation.stack;

    return p != q ? (p < q ? -1 : 1) : by_uid(a, b);
}

/* Returns how many records from first on have the same stack, or the same thread. */
static size_t run_of(const struct recent_record *const *records, size_t count,
                     int (*compare)(const void *, const void *))
{
    size_t n = 1;

    while (n < count && compare(&records[0], &records[n]) == 0)
        n++;
    return n;
}

static void write_line(const struct recent_record *const *records, size_t count, double period,
                       FILE *out)
{
    struct recent_sums sums = {0};

    for (size_t i = 0; i < count; i++)
        add_record(&sums, period, records[i]);
    write_sums(&sums, period, out);
}

/* "  t3: 28: 4526080 [0: 0] name" */
static void write_thread(const struct recent_record *const *records, size_t count, bool named,
                         double period, FILE *out)
{
    const struct recent_thread *thread = &records[count - 1]->allocation.thread;

    fprintf(out, "  t%" PRIu64 ": ", thread->uid);
    write_line(records, count, period, out);
    if (named && thread->name && !strchr(thread->name, '\n'))
        fprintf(out, " %s", thread->name);
    fputc('\n', out);
}

static void write_recent_head(const struct recent_record **records, size_t count, uint64_t period,
                              FILE *out)
{
    qsort(records, count, sizeof *records, by_uid);
    fprintf(out, "heap_v2/%" PRIu64 "\n  t*: ", period);
    write_line(records, count, (double)period, out);
    fputc('\n', out);
    for (size_t i = 0, n; i < count; i += n) {
        n = run_of(records + i, count - i, by_uid);
        write_thread(records + i, n, true, (double)period, out);
    }
}

static void write_recent_stack(const struct recent_list *list, const struct recent_stack *stack,
                               const struct recent_record *const *records, size_t count, FILE *out)
{
    double period = (double)list->period;

    fputc('@', out);
    for (uint32_t i = 0; i < stack->depth; i++)
        fprintf(out, " 0x%" PRIx64, list->frames[stack->first + i]);
    fputs("\n  t*: ", out);
    write_line(records, count, period, out);
    fputc('\n', out);
    for (size_t i = 0, n; i < count; i += n) {
        n = run_of(records + i, count - i, by_uid);
        write_thread(records + i, n, false, period, out);
    }
}

static void write_recent_stacks(const struct recent_list *list,
                                const struct recent_record **records, FILE *out)
{
    size_t at = 0;

    qsort(records, list->count, sizeof *records, by_stack_and_uid);
    for (size_t i = 0; i < list->stack_count; i++) {
        size_t first = at;
        while (at < list->count && records[at]->allocation.stack == i)
            at++;
        write_recent_stack(list, &list->stacks[i], records + first, at - first, out);
    }
}

static bool write_recent_profile(const void *ctx, FILE *out)
{
    const struct recent_list *list = ctx;
    AUTO_FREE const struct recent_record **records =
        reallocarray(NULL, list->count + 1, sizeof *records);

    if (!records)
        return false;
    for (size_t i = 0; i < list->count; i++)
        records[i] = &list->records[i];
    write_recent_head(records, list->count, list->period ? list->period : 1, out);
    write_recent_stacks(list, records, out);
    return true;
}

fault_code recent_profile_make(const struct recent_list *list, struct sink *sink,
                               struct fault *fault)
{
    return sink_print(sink, write_recent_profile, list, "report", "the profile", fault);
}
