#include "jemalloc/tsd/tsd.h"

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

static bool is_beyond_period(const struct tsd_reading *reading, uint64_t wait)
{
    return reading->state.lg_sample_known && reading->state.lg_sample < LG_SAMPLE_MAX &&
           wait >> reading->state.lg_sample >> DRAW_LIMIT_LG;
}

/* A count below zero is taken for an instant, before a sample. */
static enum thread_sampling judge_wait(const struct tsd_reading *reading,
                                       const struct tsd_layout *layout, const struct tsd_data *data)
{
    bool sleeps = layout->may_sleep && tsd_wait_sleeps(data->wait);

    if (!data->has_wait)
        return layout->tdata_wait != TSD_NONE ? THREAD_SAMPLES : THREAD_UNKNOWN;
    if (sleeps)
        return data->wait <= INT64_MAX ? THREAD_ASLEEP : THREAD_SAMPLES;
    return is_beyond_period(reading, data->wait) ? THREAD_UNKNOWN : THREAD_SAMPLES;
}

static enum thread_sampling judge_data(const struct tsd_reading *reading,
                                       const struct tsd_layout *layout, const struct tsd_data *data)
{
    bool born_off = !data->tdata && reading->state.thread_active_init == FACT_NO;

    if (data->condition == TSD_ENDING || reading->state.build.opt_prof != FACT_YES)
        return THREAD_UNKNOWN;
    if (born_off || (data->tdata && !data->tdata_active))
        return THREAD_OFF;
    if (data->condition != TSD_NOMINAL || (!data->tdata && !data->allocated && !data->wait))
        return THREAD_FRESH;
    return judge_wait(reading, layout, data);
}

static void judge_tsd(struct tsd_thread *thread, const struct tsd_reading *reading,
                      const struct tsd_layout *layout, const struct tsd_data *data)
{
    thread->sampling = judge_data(reading, layout, data);
    thread->has_counts = true;
    thread->allocated = data->allocated;
    thread->deallocated = data->deallocated;
    thread->wait = data->wait_at;
    thread->active = data->active_at;
}

static bool read_tsd(struct tsd_data *data, const struct tsd_place *place,
                     const struct tsd_reading *reading, remote_addr pointer)
{
    remote_addr at = tsd_place_of(place, pointer, reading->source->memory);
    unsigned char bytes[TSD_WINDOW];

    for (unsigned i = 0; at && place->size <= sizeof bytes && i < REREADS_MAX; i++)
        if (memory_read(reading->source->memory, at, bytes, place->size) &&
            tsd_data_take(data, place, &reading->search, at, bytes))
            return true;
    return false;
}

static bool read_thread(struct tsd_thread *thread, const struct tsd_reading *reading,
                        const struct tsd_place *place)
{
    struct tsd_data data;

    if (!thread->pointer || !place->layout || !read_tsd(&data, place, reading, thread->pointer))
        return false;
    judge_tsd(thread, reading, place->layout, &data);
    return true;
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

static bool is_since_commit(struct version version, unsigned number, unsigned commits)
{
    return version.number > number || (version.number == number && version.commits >= commits);
}

enum fact tsd_defect(const struct tsd_threads *threads, const char *version)
{
    struct version parsed = version_parse(version);

    if (threads->place.layout && !threads->place.layout->may_sleep)
        return FACT_NO;
    if (threads->by_sampling[THREAD_ASLEEP])
        return FACT_YES;
    if (!parsed.number)
        return FACT_UNKNOWN;
    return fact_of(is_since_commit(parsed, VERSION_NUMBER(5, 1, 0), 89) &&
                   !is_since_commit(parsed, VERSION_NUMBER(5, 2, 1), 21));
}

/* ---- all threads ---- */

static fault_code list_tsd_threads(struct tsd_threads *threads, const struct threads *all,
                                   struct fault *fault)
{
    threads->list = calloc(all->count ? all->count : 1, sizeof *threads->list);
    if (!threads->list)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "read threads", "%zu threads", all->count);
    threads->count = all->count;
    for (size_t i = 0; i < all->count; i++)
        threads->list[i] = (struct tsd_thread){
            .thread = all->list[i],
            .background = strcmp(all->list[i].comm, background_name) == 0,
        };
    return FAULT_NONE;
}

static int compare_tsd_threads(const void *a, const void *b)
{
    pid_t x = ((const struct tsd_thread *)a)->thread.tid;
    pid_t y = ((const struct tsd_thread *)b)->thread.tid;

    return (x > y) - (x < y);
}

/* Without statistics, releases up to 5.2.1 have the counters and do not count. */
static void drop_unused_counts(struct tsd_threads *threads)
{
    for (size_t i = 0; i < threads->count; i++)
        if (threads->list[i].allocated)
            return;
    for (size_t i = 0; i < threads->count; i++)
        threads->list[i].has_counts = false;
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

static void count_threads_by_sampling(struct tsd_threads *threads,
                                      const struct tsd_reading *reading, const char *why)
{
    for (size_t i = 0; i < threads->count; i++)
        if (!threads->list[i].background)
            threads->by_sampling[threads->list[i].sampling]++;
    if (threads->by_sampling[THREAD_UNKNOWN])
        threads->unknown_why = threads->place.layout ? explain_unknown(threads, reading) : why;
}

/* Reads the threads that are not known yet. Returns the number that still are not. */
static size_t read_missing_tsd(struct tsd_threads *threads, const struct tsd_reading *reading)
{
    size_t missing = 0;

    for (size_t i = 0; i < threads->count; i++) {
        struct tsd_thread *thread = &threads->list[i];
        missing += thread->pointer && !thread->has_counts &&
                   !read_thread(thread, reading, &threads->place);
    }
    return missing;
}

/* A thread can lose its CPU while it changes its data: then it helps to wait for it. */
static void read_each_tsd(struct tsd_threads *threads, const struct tsd_reading *reading)
{
    static const struct timespec pause = {.tv_nsec = PASS_PAUSE_NS};

    for (unsigned i = 0; i < PASSES_MAX; i++) {
        if (!threads->place.layout || !read_missing_tsd(threads, reading))
            return;
        nanosleep(&pause, NULL);
    }
}

static void read_tsd_threads(struct tsd_threads *threads, const struct tsd_source *source)
{
    const char *why = "its C library does not show where its threads' data are";
    struct tsd_reading reading;

    begin_reading(&reading, source);
    if (source->place)
        threads->place = *source->place;
    else if (source->pointers->count)
        tsd_place_find(&threads->place, &reading.search, &why);
    for (size_t i = 0; i < threads->count; i++)
        threads->list[i].pointer = thread_pointer_of(source->pointers, threads->list[i].thread.tid);
    read_each_tsd(threads, &reading);
    drop_unused_counts(threads);
    count_threads_by_sampling(threads, &reading, why);
}

/* The pointers that are missing in the source are read. */
static void read_with_pointers(struct tsd_threads *threads, const struct tsd_source *source)
{
    struct thread_pointers pointers = {0};
    struct tsd_source whole = *source;

    if (!source->pointers) {
        thread_pointers_read(&pointers, source->modules, source->target, source->memory);
        whole.pointers = &pointers;
    }
    read_tsd_threads(threads, &whole);
    thread_pointers_free(&pointers);
}

fault_code tsd_threads_read(struct tsd_threads *threads, const struct tsd_source *source,
                            struct fault *fault)
{
    struct threads all;
    fault_code rc;

    memset(threads, 0, sizeof *threads);
    rc = threads_list(&all, source->target, fault);
    if (rc != FAULT_NONE)
        return rc;
    rc = list_tsd_threads(threads, &all, fault);
    threads_free(&all);
    if (rc != FAULT_NONE)
        return rc;
    qsort(threads->list, threads->count, sizeof *threads->list, compare_tsd_threads);
    read_with_pointers(threads, source);
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
