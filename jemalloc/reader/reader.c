#include "jemalloc/reader/reader.h"
#include "jemalloc/faults.h"
#include "jemalloc/reader/bias.h"
#include "jemalloc/reader/heap_text.h"
#include "jemalloc/reader/period.h"
#include "jemalloc/reader/repeated.h"
#include "jemalloc/reader/roots.h"
#include "jemalloc/reader/stacks.h"
#include "jemalloc/reader/table.h"
#include "jemalloc/reader/threads.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static const char stage[] = "read the profile";

enum { ATTEMPTS_MAX = 16, ATTEMPTS_NS = 200 * 1000 * 1000 };

static fault_code unreadable(struct fault *fault, enum unreadable_reason reason, const char *what)
{
    fault_set(fault, FAULT_UNREADABLE, 0, stage, "%s", what);
    fault_set_reason(fault, (int)reason);
    return FAULT_UNREADABLE;
}

static fault_code out_of_memory(struct fault *fault)
{
    return fault_set(fault, FAULT_INTERNAL, ENOMEM, stage, "the profile");
}

fault_code reader_check_time(const struct reader *reader, struct fault *fault)
{
    const struct deadline *deadline = reader->source.deadline;

    if (deadline && deadline_interrupted(deadline))
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, stage, "%d", reader->source.target->pid);
    if (deadline && deadline_passed(deadline))
        return fault_set(fault, FAULT_TOO_LATE, ETIMEDOUT, stage, "its memory was being read");
    return FAULT_NONE;
}

/* ---- opening ---- */

static fault_code check_state(const struct reader *reader, struct fault *fault)
{
    struct prof_state state;

    facts_read(&reader->variables, reader->source.memory, &state);
    if (state.build.opt_prof == FACT_YES)
        return FAULT_NONE;
    if (state.build.opt_prof == FACT_UNKNOWN && state.build.config_prof != FACT_NO)
        return unreadable(fault, UNREADABLE_TABLE,
                          "it is unknown whether profiling is enabled (opt.prof)");
    /* opt_prof was found by the function of its name: such a one has only a build that can profile.
     */
    if (state.build.config_prof == FACT_UNKNOWN)
        state.build.config_prof = FACT_YES;
    return build_can_profile(&state.build, fault);
}

fault_code reader_open(struct reader *reader, const struct reader_source *source,
                       struct fault *fault)
{
    struct batch batch;
    fault_code rc;

    memset(reader, 0, sizeof *reader);
    reader->source = *source;
    facts_locate(&reader->variables, source->instance, source->modules, source->target,
                 source->memory);
    rc = check_state(reader, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (batch_open(&batch, source->memory))
        rc = roots_find_stacks(reader, &batch, fault);
    else
        rc = out_of_memory(fault);
    if (rc == FAULT_NONE)
        roots_find_threads(reader, &batch);
    batch_close(&batch);
    if (rc == FAULT_NONE)
        rc = reader_check_time(reader, fault);
    if (rc == FAULT_NONE && reader->layout->has_unbiased &&
        !reader->variables.at[VARIABLE_UNBIAS].address)
        reader->unbias = bias_of_options(source);
    return rc;
}

void reader_close(struct reader *reader)
{
    memset(reader, 0, sizeof *reader);
}

/* ---- one read ---- */

static fault_code explain_end(const struct reader *reader, const struct sink *sink,
                              enum stacks_end end, struct fault *fault)
{
    switch (end) {
    case STACKS_READ:
        return FAULT_NONE;
    case STACKS_UNREADABLE:
        return unreadable(fault, UNREADABLE_MISSING, "its table of stacks could not be read");
    case STACKS_TOO_MANY:
        return sink_refuse(sink, stage, fault);
    case STACKS_LATE:
        return reader_check_time(reader, fault);
    default:
        return out_of_memory(fault);
    }
}

static fault_code read_stacks_of(const struct reader *reader, struct batch *batch,
                                 const struct sink *sink, struct model *model, size_t *unsettled,
                                 struct fault *fault)
{
    const struct stacks_request request = {.layout = reader->layout,
                                           .batch = batch,
                                           .table = reader->stacks,
                                           .is_still = reader->source.is_still,
                                           .limit = sink->limit - sink->len,
                                           .deadline = reader->source.deadline};

    return explain_end(reader, sink, stacks_read(&request, model, unsettled), fault);
}

/* The threads come after the stacks, so that they include those that were new in between. */
static fault_code read_threads_of(struct reader *reader, struct batch *batch, struct model *model,
                                  struct fault *fault)
{
    struct reader_table table;

    if (!reader->threads)
        roots_find_threads(reader, batch);
    if (!reader->threads && model->tctx_count == 0)
        return FAULT_NONE;
    if (!reader->threads)
        return unreadable(fault, UNREADABLE_TABLE, "its tree of threads (tdatas) was not found");
    if (!table_open(&table, reader->source.memory, reader->stacks) ||
        !threads_read(batch, reader->layout, reader->threads, &table, reader->source.is_still,
                      model))
        return unreadable(fault, UNREADABLE_PROOF, "its tree of threads (tdatas) does not close");
    return FAULT_NONE;
}

/* ---- joining stacks and threads ---- */

/* What prof.dump would do with the counts of a thread for a stack. */
enum join { JOIN_COUNTED, JOIN_OMITTED, JOIN_LOST };

/*
 * Adds the counts to those of their thread. A thread that is not in the tree has
 * ended, and its objects were freed, after these counts were read; or the tree
 * was being changed.
 */
static enum join join_tctx(struct model *model, const size_t *order, const struct tctx *tctx)
{
    size_t at = threads_at(model, order, tctx->tdata);
    struct tdata *tdata;

    if (at == SIZE_MAX || model->tdatas[at].thr_uid != tctx->thr_uid)
        return tctx->counts.at[COUNT_OBJECTS] ? JOIN_LOST : JOIN_OMITTED;
    tdata = &model->tdatas[at];
    tdata->found++;
    if (tdata->is_expired || tctx->is_initializing)
        return JOIN_OMITTED;
    counts_add(&tdata->sum, &tctx->counts);
    return JOIN_COUNTED;
}

/* Keeps the counts of one stack that count. Returns true if some were lost. */
static bool join_gctx(struct model *model, const size_t *order, struct gctx *gctx)
{
    size_t kept = gctx->first_tctx, lost = 0;

    for (size_t i = gctx->first_tctx; i < gctx->first_tctx + gctx->tctxs; i++) {
        enum join join = join_tctx(model, order, &model->tctxs[i]);
        lost += join == JOIN_LOST;
        if (join == JOIN_COUNTED)
            model->tctxs[kept++] = model->tctxs[i];
    }
    gctx->tctxs = (uint32_t)(kept - gctx->first_tctx);
    return lost > 0;
}

/* Adds the stacks of which counts were lost to *unsettled. False: out of memory. */
static bool join_threads(struct model *model, size_t *unsettled)
{
    size_t *order = threads_order(model);

    for (size_t i = 0; order && i < model->gctx_count; i++)
        *unsettled += join_gctx(model, order, &model->gctxs[i]);
    free(order);
    return order != NULL;
}

/*
 * Counts that the threads' own tables have and the trees of the stacks do not:
 * in a process that stands still, a table was being changed when it was stopped.
 */
static size_t count_missing(const struct model *model)
{
    size_t missing = 0;

    for (size_t i = 0; i < model->tdata_count; i++)
        if (model->tdatas[i].stacks > model->tdatas[i].found)
            missing += model->tdatas[i].stacks - model->tdatas[i].found;
    return missing;
}

static size_t count_threads(const struct model *model)
{
    size_t threads = 0;

    for (size_t i = 0; i < model->tdata_count; i++)
        threads += !model->tdatas[i].is_expired;
    return threads;
}

/* ---- the text ---- */

static bool is_unbiased(const struct reader *reader, const struct model *model)
{
    remote_addr variable = reader->variables.at[VARIABLE_UNBIAS].address;
    unsigned char value;

    if (!reader->layout->has_unbiased)
        return false;
    if (variable && memory_read(reader->source.memory, variable, &value, 1) && value <= 1)
        return value;
    return reader->unbias != FACT_NO && period_is_unbiased(model);
}

static bool find_period(const struct reader *reader, const struct model *model, unsigned *lg_sample)
{
    struct prof_state state;

    facts_read(&reader->variables, reader->source.memory, &state);
    *lg_sample = (unsigned)state.lg_sample;
    return state.lg_sample_known || (reader->layout->has_unbiased && period_find(model, lg_sample));
}

static fault_code write_heap_text(const struct reader *reader, struct model *model,
                                  struct sink *sink, size_t *stacks, struct fault *fault)
{
    struct heap_text text = {.model = model, .is_unbiased = is_unbiased(reader, model)};

    if (!find_period(reader, model, &text.lg_sample))
        return unreadable(fault, UNREADABLE_PERIOD,
                          "its sampling period (prof.lg_sample) is unknown");
    if (!heap_text_write(&text, model, sink, stacks))
        return sink_refuse(sink, stage, fault);
    return FAULT_NONE;
}

/* Memory that belongs to another program now has been read in vain. */
static fault_code check_program(const struct reader *reader, struct fault *fault)
{
    if (memory_is_same(reader->source.memory, reader->source.instance->mallctl))
        return FAULT_NONE;
    return fault_set(fault, FAULT_EXECED, 0, stage, "%d", reader->source.target->pid);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static fault_code read_model(struct reader *reader, struct batch *batch, const struct sink *sink,
                             struct model *model, struct reading *reading, struct fault *fault)
{
    fault_code rc = read_stacks_of(reader, batch, sink, model, &reading->unsettled, fault);

    /* Less than half of a profile would look as if the rest had been freed. */
    if (rc == FAULT_NONE && !reader->source.is_still && reading->unsettled > model->gctx_count)
        rc = unreadable(fault, UNREADABLE_CHANGING,
                        "most of its stacks changed during each attempt to read them");
    if (rc == FAULT_NONE && !repeated_drop(model))
        rc = out_of_memory(fault);
    if (rc == FAULT_NONE)
        rc = read_threads_of(reader, batch, model, fault);
    if (rc == FAULT_NONE && !join_threads(model, &reading->unsettled))
        rc = out_of_memory(fault);
    if (rc == FAULT_NONE)
        rc = check_program(reader, fault);
    if (reader->source.is_still)
        reading->unsettled += count_missing(model);
    reading->threads = count_threads(model);
    return rc;
}

struct attempt {
    struct model model;
    struct reading reading;
    uint64_t cpu_ns;
};

static fault_code attempt_read(struct reader *reader, struct batch *batch, const struct sink *sink,
                               struct attempt *attempt, struct fault *fault)
{
    const uint64_t start = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    fault_code rc;

    memset(attempt, 0, sizeof *attempt);
    attempt->reading.time_ns = clock_ns(CLOCK_REALTIME);
    rc = read_model(reader, batch, sink, &attempt->model, &attempt->reading, fault);
    attempt->reading.ns = clock_ns(CLOCK_MONOTONIC) - start;
    attempt->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    return rc;
}

/* True if the tool waited for a CPU for a fifth of the time, in which the process went on. */
static bool was_delayed(const struct attempt *attempt)
{
    return attempt->reading.ns > attempt->cpu_ns + attempt->cpu_ns / 4;
}

/*
 * What is allocated and freed during a read may be counted twice, or not at all, so
 * the quickest of several reads is the truest. Quick means: without a pause.
 */
static fault_code read_quickly(struct reader *reader, struct batch *batch, const struct sink *sink,
                               struct attempt *best, struct fault *fault)
{
    const unsigned most = reader->source.attempts ? reader->source.attempts : ATTEMPTS_MAX;
    const uint64_t start = clock_ns(CLOCK_MONOTONIC);
    fault_code rc = attempt_read(reader, batch, sink, best, fault);
    struct attempt next, worse;

    for (unsigned i = 1; i < most && rc == FAULT_NONE && !reader->source.is_still; i++) {
        if (!was_delayed(best) || clock_ns(CLOCK_MONOTONIC) - start > ATTEMPTS_NS)
            break;
        if (attempt_read(reader, batch, sink, &next, fault) != FAULT_NONE) {
            model_free(&next.model);
            break;
        }
        worse = next;
        if (next.reading.ns < best->reading.ns) {
            worse = *best;
            *best = next;
        }
        model_free(&worse.model);
    }
    return rc;
}

fault_code reader_read(struct reader *reader, struct sink *sink, struct reading *reading,
                       struct fault *fault)
{
    struct attempt best = {0};
    struct batch batch;
    fault_code rc;

    if (batch_open(&batch, reader->source.memory))
        rc = read_quickly(reader, &batch, sink, &best, fault);
    else
        rc = out_of_memory(fault);
    batch_close(&batch);
    *reading = best.reading;
    if (rc == FAULT_NONE)
        rc = write_heap_text(reader, &best.model, sink, &reading->stacks, fault);
    model_free(&best.model);
    return rc;
}
