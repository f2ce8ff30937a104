#include "cli/output/thread_view.h"
#include "base/units.h"
#include "cli/message.h"
#include "cli/output/columns.h"

#include <stdlib.h>
#include <string.h>

size_t thread_counts_total(const size_t counts[])
{
    size_t total = 0;

    for (size_t i = 0; i <= THREAD_OFF; i++)
        total += counts[i];
    return total;
}

/* Returns how many of them sample, those that have not allocated yet included. */
static size_t thread_counts_sampling(const size_t counts[])
{
    return counts[THREAD_SAMPLES] + counts[THREAD_FRESH];
}

const char *thread_counts_text(const size_t counts[], bool active, const char *why,
                               char out[THREAD_COUNTS_TEXT])
{
    const size_t total = thread_counts_total(counts), unknown = counts[THREAD_UNKNOWN];
    struct line line;

    line_init(&line, out, THREAD_COUNTS_TEXT, SIZE_MAX);
    if (unknown < total)
        line_printf(&line, "%zu of %zu %s", thread_counts_sampling(counts), total,
                    active ? "sample" : "would sample");
    if (counts[THREAD_FRESH])
        line_printf(&line, " (%zu %s not allocated yet)", counts[THREAD_FRESH],
                    counts[THREAD_FRESH] == 1 ? "has" : "have");
    if (counts[THREAD_ASLEEP])
        line_printf(&line, "; %zu stopped sampling while profiling was not active",
                    counts[THREAD_ASLEEP]);
    if (counts[THREAD_OFF])
        line_printf(&line, "; %zu %s off (thread.prof.active)", counts[THREAD_OFF],
                    counts[THREAD_OFF] == 1 ? "is" : "are");
    if (unknown)
        line_printf(&line, "%sunknown for %zu of %zu%s%s", unknown < total ? "; " : "", unknown,
                    total, why ? ": " : "", why ? why : "");
    return out;
}

void thread_counts_json(const size_t counts[], struct json *json)
{
    JSON_MEMBERS(json, NUMBER("threads", thread_counts_total(counts)),
                 NUMBER("threads_sampling", thread_counts_sampling(counts)),
                 NUMBER("threads_fresh", counts[THREAD_FRESH]),
                 NUMBER("threads_asleep", counts[THREAD_ASLEEP]),
                 NUMBER("threads_off", counts[THREAD_OFF]),
                 NUMBER("threads_unknown", counts[THREAD_UNKNOWN]));
}

/* ---- one row for each ---- */

enum { COLUMNS = 6, CELL = 40 };

static const char *const headings[COLUMNS] = {"THREAD",    "NAME",        "KEPT",
                                              "ALLOCATED", "DEALLOCATED", "SAMPLING"};

/* Wraps around for the difference, so a thread that frees the blocks of others is below 0. */
static int64_t kept_bytes(const struct tsd_thread *thread)
{
    return (int64_t)(thread->allocated - thread->deallocated);
}

static const char *sampling_word(const struct tsd_thread *thread)
{
    if (thread->background)
        return "background";
    return thread->sampling == THREAD_UNKNOWN ? "?" : thread_sampling_text(thread->sampling);
}

static void fill_cells(const struct tsd_thread *thread, char cells[COLUMNS][CELL])
{
    snprintf(cells[0], CELL, "%d", (int)thread->thread.tid);
    message_clean(thread->thread.comm, cells[1], CELL);
    for (size_t c = 2; c < 5; c++)
        snprintf(cells[c], CELL, "?");
    if (thread->has_counts) {
        units_bytes((double)kept_bytes(thread), cells[2]);
        units_bytes((double)thread->allocated, cells[3]);
        units_bytes((double)thread->deallocated, cells[4]);
    }
    snprintf(cells[5], CELL, "%s", sampling_word(thread));
}

static void print_cells(FILE *out, const size_t widths[COLUMNS], char cells[COLUMNS][CELL])
{
    for (size_t c = 0; c < COLUMNS - 1; c++)
        fprintf(out, "%*s  ", c == 1 ? -(int)widths[c] : (int)widths[c], cells[c]);
    fprintf(out, "%s\n", cells[COLUMNS - 1]);
}

void thread_view_print(const struct tsd_threads *threads, FILE *out)
{
    char cells[COLUMNS][CELL];
    size_t widths[COLUMNS];

    for (size_t c = 0; c < COLUMNS; c++)
        widths[c] = strlen(headings[c]);
    for (size_t i = 0; i < threads->count; i++) {
        fill_cells(&threads->list[i], cells);
        for (size_t c = 0; c < COLUMNS; c++)
            widths[c] = strlen(cells[c]) > widths[c] ? strlen(cells[c]) : widths[c];
    }
    for (size_t c = 0; c < COLUMNS; c++)
        snprintf(cells[c], CELL, "%s", headings[c]);
    print_cells(out, widths, cells);
    for (size_t i = 0; i < threads->count; i++) {
        fill_cells(&threads->list[i], cells);
        print_cells(out, widths, cells);
    }
}

void thread_view_json(const struct tsd_threads *threads, struct json *json)
{
    json_list_begin(json, "thread_list");
    for (size_t i = 0; i < threads->count; i++) {
        const struct tsd_thread *thread = &threads->list[i];
        const char *word = sampling_word(thread);
        JSON_ITEM(json, NUMBER("thread", thread->thread.tid), TEXT("name", thread->thread.comm),
                  NUMBER_IF(thread->has_counts, "allocated", thread->allocated),
                  NUMBER_IF(thread->has_counts, "deallocated", thread->deallocated),
                  TEXT_OR_NULL("sampling", strcmp(word, "?") == 0 ? NULL : word));
    }
    json_list_end(json);
}

static int compare_kept(const void *left, const void *right)
{
    const struct tsd_thread *a = left, *b = right;

    if (a->has_counts != b->has_counts)
        return a->has_counts ? -1 : 1;
    if (a->has_counts && kept_bytes(a) != kept_bytes(b))
        return kept_bytes(a) > kept_bytes(b) ? -1 : 1;
    return a->thread.tid < b->thread.tid ? -1 : a->thread.tid > b->thread.tid;
}

void thread_view_sort(struct tsd_threads *threads)
{
    if (threads->count)
        qsort(threads->list, threads->count, sizeof *threads->list, compare_kept);
}
