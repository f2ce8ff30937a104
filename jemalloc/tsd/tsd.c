#include "jemalloc/tsd/tsd.h"
#include "jemalloc/activate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    REREADS_MAX = 8, /* of one thread, which changes its data meanwhile */
    PASSES_MAX = 8,  /* over the threads that are not known yet */
    PASS_PAUSE_NS = 2000000,
    LG_SAMPLE_MAX = 50, /* of a period that a program would set */
    DRAW_LIMIT_LG = 6,  /* no count is drawn above 64 periods: -ln(2^-53) is 37 */
};

static const char background_name[] = "jemalloc_bg_thd"; /* since 5.0 (background_thread.c) */

/* What the members of one tsd are judged with. */
struct tsd_reading {
    const struct tsd_source *source;
    struct tsd_search search;
    struct prof_state state;
};

static void begin_reading(struct tsd_reading *reading, const struct tsd_source *source)
{
    *reading = (struct tsd_reading){
        .source = source,
        .search = {.instance = source->instance,
                   .modules = source->modules,
                   .memory = source->memory,
                   .pointers = source->pointers,
                   .version = version_parse(source->variables->version),
                   .offset = source->offset},
    };
    facts_read(source->variables, source->memory, &reading->state);
    reading->search.samples = reading->state.build.opt_prof == FACT_YES;
}

/* ---- one thread ---- */

/* A count below zero is taken for an instant, before a sample. */
static enum thread_sampling judge_data(const struct tsd_reading *reading,
                                       const struct tsd_layout *layout, const struct tsd_data *data)
{
    const struct prof_state *state = &reading->state;
    const bool born_off = !data->tdata && state->thread_active_init == FACT_NO;

    if (data->condition == TSD_ENDING || state->build.opt_prof != FACT_YES)
        return THREAD_UNKNOWN;
    if (born_off || (data->tdata && !data->tdata_active))
        return THREAD_OFF;
    if (data->condition != TSD_NOMINAL || (!data->tdata && !data->allocated && !data->wait))
        return THREAD_FRESH;
    if (!data->has_wait)
        return layout->tdata_wait != TSD_NONE ? THREAD_SAMPLES : THREAD_UNKNOWN;
    if (layout->may_sleep && tsd_wait_sleeps(data->wait))
        return data->wait <= INT64_MAX ? THREAD_ASLEEP : THREAD_SAMPLES;
    if (state->lg_sample_known && state->lg_sample < LG_SAMPLE_MAX &&
        data->wait >> state->lg_sample >> DRAW_LIMIT_LG)
        return THREAD_UNKNOWN;
    return THREAD_SAMPLES;
}

static bool read_thread(struct tsd_thread *thread, const struct tsd_reading *reading,
                        const struct tsd_place *place)
{
    struct memory *memory = reading->source->memory;
    unsigned char bytes[TSD_WINDOW];
    struct tsd_data data;
    remote_addr at;

    if (!thread->pointer || !place->layout)
        return false;
    at = tsd_place_of(place, thread->pointer, memory);
    for (unsigned i = 0; at && place->size <= sizeof bytes && i < REREADS_MAX; i++) {
        if (!memory_read(memory, at, bytes, place->size) ||
            !tsd_data_take(&data, place, &reading->search, at, bytes))
            continue;
        thread->sampling = judge_data(reading, place->layout, &data);
        thread->has_counts = true;
        thread->allocated = data.allocated;
        thread->deallocated = data.deallocated;
        thread->wait = data.wait_at;
        thread->active = data.active_at;
        return true;
    }
    return false;
}

enum thread_sampling tsd_thread_reread(struct tsd_thread *thread, remote_addr pointer,
                                       const struct tsd_threads *threads,
                                       const struct tsd_source *source)
{
    struct tsd_reading reading;

    begin_reading(&reading, source);
    thread->pointer = pointer;
    thread->sampling = THREAD_UNKNOWN;
    thread->has_counts = false;
    thread->wait = thread->active = 0;
    read_thread(thread, &reading, &threads->place);
    return thread->sampling;
}

/* ---- the defect ---- */

enum fact tsd_defect(const struct tsd_threads *threads, const char *version)
{
    if (threads->place.layout && !threads->place.layout->may_sleep)
        return FACT_NO;
    if (threads->by_sampling[THREAD_ASLEEP])
        return FACT_YES;
    if (!version_parse(version).number)
        return FACT_UNKNOWN;
    return fact_of(activation_needed(version));
}

/* ---- all threads ---- */

static int compare_tsd_threads(const void *a, const void *b)
{
    pid_t x = ((const struct tsd_thread *)a)->thread.tid;
    pid_t y = ((const struct tsd_thread *)b)->thread.tid;

    return (x > y) - (x < y);
}

static const char *explain_unknown(const struct tsd_threads *threads,
                                   const struct tsd_reading *reading)
{
    size_t pointers = 0;

    if (reading->state.build.opt_prof != FACT_YES)
        return "profiling is not enabled in the process";
    for (size_t i = 0; i < threads->count; i++)
        if (threads->list[i].sampling == THREAD_UNKNOWN && !threads->list[i].background)
            pointers += threads->list[i].pointer == 0;
    return pointers ? "the C library does not show where their data are"
                    : "they are starting or ending, or their period was changed";
}

/* A thread can lose its CPU while it changes its data: then it helps to wait for it. */
static void read_each_tsd(struct tsd_threads *threads, const struct tsd_reading *reading)
{
    static const struct timespec pause = {.tv_nsec = PASS_PAUSE_NS};

    for (unsigned pass = 0; pass < PASSES_MAX && threads->place.layout; pass++) {
        size_t missing = 0;
        for (size_t i = 0; i < threads->count; i++) {
            struct tsd_thread *thread = &threads->list[i];
            missing += thread->pointer && !thread->has_counts &&
                       !read_thread(thread, reading, &threads->place);
        }
        if (!missing)
            return;
        nanosleep(&pause, NULL);
    }
}

static void read_tsd_threads(struct tsd_threads *threads, const struct tsd_source *source)
{
    const char *why = "its C library does not show where its threads' data are";
    struct tsd_reading reading;
    bool counts = false;

    begin_reading(&reading, source);
    if (source->place)
        threads->place = *source->place;
    else if (source->pointers->count)
        tsd_place_find(&threads->place, &reading.search, &why);
    for (size_t i = 0; i < threads->count; i++)
        threads->list[i].pointer = thread_pointer_of(source->pointers, threads->list[i].thread.tid);
    read_each_tsd(threads, &reading);

    /* Without statistics, releases up to 5.2.1 have the counters and do not count. */
    for (size_t i = 0; i < threads->count; i++)
        counts |= threads->list[i].allocated != 0;
    for (size_t i = 0; i < threads->count; i++) {
        struct tsd_thread *thread = &threads->list[i];
        thread->has_counts &= counts;
        if (!thread->background)
            threads->by_sampling[thread->sampling]++;
    }
    if (threads->by_sampling[THREAD_UNKNOWN])
        threads->unknown_why = threads->place.layout ? explain_unknown(threads, &reading) : why;
}

bool tsd_is_background(const char *comm)
{
    return strcmp(comm, background_name) == 0;
}

fault_code tsd_threads_read(struct tsd_threads *threads, const struct tsd_source *source,
                            struct fault *fault)
{
    struct thread_pointers pointers = {0};
    struct tsd_source whole = *source;
    struct threads all;
    fault_code rc;

    memset(threads, 0, sizeof *threads);
    rc = threads_list(&all, source->target, fault);
    if (rc != FAULT_NONE)
        return rc;
    threads->list = calloc(all.count ? all.count : 1, sizeof *threads->list);
    if (!threads->list) {
        rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "read threads", "%zu threads", all.count);
        threads_free(&all);
        return rc;
    }
    threads->count = all.count;
    for (size_t i = 0; i < all.count; i++)
        threads->list[i] = (struct tsd_thread){
            .thread = all.list[i],
            .background = tsd_is_background(all.list[i].comm),
        };
    threads_free(&all);
    qsort(threads->list, threads->count, sizeof *threads->list, compare_tsd_threads);

    if (!source->pointers) {
        thread_pointers_read(&pointers, source->modules, source->target, source->memory);
        whole.pointers = &pointers;
    }
    read_tsd_threads(threads, &whole);
    thread_pointers_free(&pointers);
    return FAULT_NONE;
}

void tsd_threads_free(struct tsd_threads *threads)
{
    free(threads->list);
    memset(threads, 0, sizeof *threads);
}

const char *thread_sampling_text(enum thread_sampling sampling)
{
    static const char *const texts[] = {
        [THREAD_UNKNOWN] = "unknown", [THREAD_SAMPLES] = "samples", [THREAD_FRESH] = "fresh",
        [THREAD_ASLEEP] = "asleep",   [THREAD_OFF] = "off",
    };

    return texts[sampling];
}
