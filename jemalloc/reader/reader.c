#include "jemalloc/reader/reader.h"
#include "jemalloc/conf.h"
#include "jemalloc/faults.h"
#include "jemalloc/reader/heap_text.h"
#include "jemalloc/reader/roots.h"
#include "jemalloc/reader/stacks.h"
#include "jemalloc/reader/threads.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static const char stage[] = "read the profile";

enum { ATTEMPTS_MAX = 16, ATTEMPTS_NS = 200 * 1000 * 1000 };

fault_code reader_unreadable(struct fault *fault, enum unreadable_reason reason, const char *what)
{
    fault_set(fault, FAULT_UNREADABLE, 0, stage, "%s", what);
    fault_set_reason(fault, (int)reason);
    return FAULT_UNREADABLE;
}

fault_code reader_out_of_memory(struct fault *fault)
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

enum fact bias_option(const char *options)
{
    size_t len;
    const char *value = conf_value(options, "prof_unbias", &len);

    return value ? fact_of(len == strlen("true")) : FACT_UNKNOWN;
}

/*
 * opt.prof_unbias, where the variable has no name: what the options that the process was started
 * with set it to, in jemalloc's order; unknown: none does. It is no option of mallctl, and true by
 * default. The prefix of a build without symbols may be unknown: then its variable seems to be
 * foreign.
 */
static enum fact bias_of_options(const struct reader_source *source)
{
    enum fact set = FACT_UNKNOWN;
    struct conf conf;

    conf_read(&conf, source->instance, source->modules, source->target, source->memory);
    const struct conf_source *const list[] = {&conf.symbol, &conf.link,
                                              conf.variable.set ? &conf.variable : &conf.foreign};
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        enum fact here = list[i]->set ? bias_option(list[i]->text) : FACT_UNKNOWN;
        if (here != FACT_UNKNOWN)
            set = here;
    }
    return set;
}

fault_code reader_open(struct reader *reader, const struct reader_source *source,
                       struct fault *fault)
{
    struct prof_state state;
    struct batch batch;
    fault_code rc;

    memset(reader, 0, sizeof *reader);
    reader->source = *source;
    facts_locate(&reader->variables, source->instance, source->modules, source->target,
                 source->memory);
    facts_read(&reader->variables, source->memory, &state);
    if (state.build.opt_prof == FACT_UNKNOWN && state.build.config_prof != FACT_NO)
        return reader_unreadable(fault, UNREADABLE_TABLE,
                                 "it is unknown whether profiling is enabled (opt.prof)");
    if (state.build.opt_prof != FACT_YES) {
        /*
         * opt_prof was found by the function of its name: such a one has only a build that can
         * profile.
         */
        if (state.build.config_prof == FACT_UNKNOWN)
            state.build.config_prof = FACT_YES;
        return build_can_profile(&state.build, fault);
    }

    if (batch_open(&batch, source->memory))
        rc = roots_find_stacks(reader, &batch, fault);
    else
        rc = reader_out_of_memory(fault);
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

static fault_code read_threads(struct reader *reader, struct batch *batch, struct model *model,
                               struct fault *fault)
{
    struct reader_table table;

    if (!reader->threads)
        roots_find_threads(reader, batch);
    if (!reader->threads && model->tctx_count == 0)
        return FAULT_NONE;
    if (!reader->threads)
        return reader_unreadable(fault, UNREADABLE_TABLE,
                                 "its tree of threads (tdatas) was not found");
    if (!table_open(&table, reader->source.memory, reader->stacks) ||
        !threads_read(batch, reader->layout, reader->threads, &table, reader->source.is_still,
                      model))
        return reader_unreadable(fault, UNREADABLE_PROOF,
                                 "its tree of threads (tdatas) does not close");
    return FAULT_NONE;
}

/*
 * Keeps the counts that count, and adds them to those of their threads. A thread that is
 * not in the tree has ended, and its objects were freed, after these counts were read; or
 * the tree was being changed: then they are lost. Adds the stacks of which counts were
 * lost to *unsettled. False: out of memory.
 */
static bool join_threads(struct model *model, size_t *unsettled)
{
    size_t *order = threads_order(model);

    for (size_t i = 0; order && i < model->gctx_count; i++) {
        struct gctx *gctx = &model->gctxs[i];
        size_t kept = gctx->first_tctx;
        bool lost = false;

        for (size_t k = gctx->first_tctx; k < gctx->first_tctx + gctx->tctxs; k++) {
            const struct tctx tctx = model->tctxs[k];
            size_t at = threads_at(model, order, tctx.tdata);
            struct tdata *tdata;
            if (at == SIZE_MAX || model->tdatas[at].thr_uid != tctx.thr_uid) {
                lost |= tctx.counts.at[COUNT_OBJECTS] != 0;
                continue;
            }
            tdata = &model->tdatas[at];
            tdata->found++;
            if (tdata->is_expired || tctx.is_initializing)
                continue;
            counts_add(&tdata->sum, &tctx.counts);
            model->tctxs[kept++] = tctx;
        }
        gctx->tctxs = (uint32_t)(kept - gctx->first_tctx);
        *unsettled += lost;
    }
    free(order);
    return order != NULL;
}

static fault_code write_heap_text(const struct reader *reader, struct model *model,
                                  struct sink *sink, size_t *stacks, struct fault *fault)
{
    remote_addr variable = reader->variables.at[VARIABLE_UNBIAS].address;
    struct heap_text text = {0};
    struct prof_state state;
    unsigned char value;

    if (reader->layout->has_unbiased) {
        if (variable && memory_read(reader->source.memory, variable, &value, 1) && value <= 1)
            text.is_unbiased = value;
        else
            text.is_unbiased = reader->unbias != FACT_NO && heap_is_unbiased(model);
    }
    facts_read(&reader->variables, reader->source.memory, &state);
    text.lg_sample = (unsigned)state.lg_sample;
    if (!state.lg_sample_known &&
        !(reader->layout->has_unbiased && heap_find_period(model, &text.lg_sample)))
        return reader_unreadable(fault, UNREADABLE_PERIOD,
                                 "its sampling period (prof.lg_sample) is unknown");
    if (!heap_text_write(&text, model, sink, stacks))
        return sink_refuse(sink, stage, fault);
    return FAULT_NONE;
}

struct attempt {
    struct model model;
    struct reading reading;
    uint64_t cpu_ns;
};

static fault_code attempt_read(struct reader *reader, struct batch *batch, const struct sink *sink,
                               struct attempt *attempt, struct fault *fault)
{
    const uint64_t start = clock_now(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    struct reading *reading = &attempt->reading;
    struct model *model = &attempt->model;
    fault_code rc;

    memset(attempt, 0, sizeof *attempt);
    reading->time_ns = clock_ns(CLOCK_REALTIME);
    rc = stacks_read(reader, batch, sink, model, &reading->unsettled, fault);
    /* Less than half of a profile would look as if the rest had been freed. */
    if (rc == FAULT_NONE && !reader->source.is_still && reading->unsettled > model->gctx_count)
        rc = reader_unreadable(fault, UNREADABLE_CHANGING,
                               "most of its stacks changed during each attempt to read them");
    if (rc == FAULT_NONE && !stacks_drop_repeated(model))
        rc = reader_out_of_memory(fault);
    /* The threads come after the stacks, so that they include those that were new in between. */
    if (rc == FAULT_NONE)
        rc = read_threads(reader, batch, model, fault);
    if (rc == FAULT_NONE && !join_threads(model, &reading->unsettled))
        rc = reader_out_of_memory(fault);
    /* Memory that belongs to another program now has been read in vain. */
    if (rc == FAULT_NONE &&
        !memory_is_same(reader->source.memory, reader->source.instance->mallctl))
        rc = fault_set(fault, FAULT_EXECED, 0, stage, "%d", reader->source.target->pid);

    /*
     * Counts that the threads' own tables have and the trees of the stacks do not: in a
     * process that stands still, a table was being changed when it was stopped.
     */
    for (size_t i = 0; i < model->tdata_count; i++) {
        const struct tdata *tdata = &model->tdatas[i];
        reading->threads += !tdata->is_expired;
        if (reader->source.is_still && tdata->stacks > tdata->found)
            reading->unsettled += tdata->stacks - tdata->found;
    }
    reading->ns = clock_now() - start;
    attempt->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    return rc;
}

fault_code reader_read(struct reader *reader, struct sink *sink, struct reading *reading,
                       struct fault *fault)
{
    const unsigned most = reader->source.attempts ? reader->source.attempts : ATTEMPTS_MAX;
    const uint64_t start = clock_now();
    struct attempt best, next, worse;
    struct batch batch;
    fault_code rc;

    memset(reading, 0, sizeof *reading);
    if (!batch_open(&batch, reader->source.memory))
        return reader_out_of_memory(fault);
    /*
     * What is allocated and freed during a read may be counted twice, or not at all, so
     * the quickest of several reads is the truest. Quick means: without a pause.
     */
    rc = attempt_read(reader, &batch, sink, &best, fault);
    for (unsigned i = 1; i < most && rc == FAULT_NONE && !reader->source.is_still; i++) {
        /* Did the tool wait for a CPU for a fifth of the time, in which the process went on? */
        const bool was_delayed = best.reading.ns > best.cpu_ns + best.cpu_ns / 4;
        if (!was_delayed || clock_now() - start > ATTEMPTS_NS)
            break;
        if (attempt_read(reader, &batch, sink, &next, fault) != FAULT_NONE) {
            model_free(&next.model);
            break;
        }
        worse = next;
        if (next.reading.ns < best.reading.ns) {
            worse = best;
            best = next;
        }
        model_free(&worse.model);
    }
    batch_close(&batch);
    *reading = best.reading;
    if (rc == FAULT_NONE)
        rc = write_heap_text(reader, &best.model, sink, &reading->stacks, fault);
    model_free(&best.model);
    return rc;
}
