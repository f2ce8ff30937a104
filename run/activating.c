#include "run/activating.h"
#include "run/apart.h"
#include "run/faults.h"
#include "run/need.h"

#include <string.h>

struct activating_run {
    struct attachment *attachment;
    const struct prof_state *state;
    struct activating *result;
    struct thread_view view;
    struct activation_layout layout;
};

/* ---- what memory shows of the threads ---- */

fault_code thread_view_read(struct thread_view *view, struct attachment *attachment, int64_t offset,
                            struct fault *fault)
{
    struct tsd_place *place = &attachment->threads_place;
    fault_code rc;

    memset(view, 0, sizeof *view);
    /* What access_find_byte has just read is not read again: that takes time on the way of `on`. */
    if (attachment->byte.located)
        view->variables = attachment->byte.variables;
    else
        facts_locate(&view->variables, &attachment->instance, &attachment->modules,
                     &attachment->target, &attachment->memory);
    view->source = (struct tsd_source){.instance = &attachment->instance,
                                       .modules = &attachment->modules,
                                       .target = &attachment->target,
                                       .memory = &attachment->memory,
                                       .variables = &view->variables,
                                       .place = place->layout ? place : NULL,
                                       .offset = offset};
    rc = tsd_threads_read(&view->threads, &view->source, fault);
    *place = view->threads.place;
    return rc;
}

void thread_view_free(struct thread_view *view)
{
    tsd_threads_free(&view->threads);
}

/* ---- prof.thread_active_init: first, as a thread without data of its own obeys it ---- */

/* As prof_byte_write: nobody reads it without a lock but as one byte. */
static bool write_init(struct attachment *attachment)
{
    const remote_addr at = attachment->byte.thread_init;
    struct memory *memory = &attachment->memory;
    unsigned char now;

    return at && memory_is_same(memory, at) && memory_read(memory, at, &now, 1) && now <= 1 &&
           memory_write_running(memory, at, &(unsigned char){1}, 1) &&
           memory_read(memory, at, &now, 1) && now == 1;
}

static fault_code write_init_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct activating_run *run = ctx;
    struct ctl_op op = {
        .name = "prof.thread_active_init", .type = CTL_BOOL, .writes = true, .new_value = 1};
    fault_code rc =
        ctl_run(&attachment->caller.injection, &attachment->instance, &op, 1, NULL, fault);

    if (rc == FAULT_NONE && op.rc == 0)
        run->result->init = INIT_SWITCHED;
    return rc;
}

static fault_code repair_init(struct activating_run *run, struct fault *fault)
{
    const struct attach_request *request = &run->attachment->request;

    run->result->init = INIT_FALSE;
    if (!request->repairs)
        return FAULT_NONE;
    if (write_init(run->attachment)) {
        run->result->init = INIT_SWITCHED;
        return FAULT_NONE;
    }
    if (request->way == WAY_MEMORY)
        return FAULT_NONE;
    return caller_hold(run->attachment, write_init_held, run, fault);
}

/* ---- the threads ---- */

static fault_code learn_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct activating_run *run = ctx;

    return activation_learn(&attachment->caller.injection, &attachment->instance, &run->layout,
                            fault);
}

static fault_code view_again(struct activating_run *run, struct fault *fault)
{
    thread_view_free(&run->view);
    return thread_view_read(&run->view, run->attachment,
                            run->layout.known ? run->layout.counters : 0, fault);
}

/* A call tells where a thread's counters are, if memory alone does not. */
static fault_code view_threads(struct activating_run *run, struct fault *fault)
{
    const struct attach_request *request = &run->attachment->request;
    const struct tsd_threads *threads = &run->view.threads;
    fault_code rc = view_again(run, fault);

    if (rc != FAULT_NONE || !threads->by_sampling[THREAD_UNKNOWN] || request->way == WAY_MEMORY ||
        run->layout.known)
        return rc;
    if (!request->repairs && tsd_defect(threads, run->state->build.text) == FACT_NO)
        return rc;
    rc = caller_hold(run->attachment, learn_held, run, fault);
    return rc == FAULT_NONE && run->layout.known ? view_again(run, fault) : rc;
}

struct visit {
    struct activating_run *run;
    const struct activation_options *options;
    struct fault *fault;
    fault_code code;
};

static void visit_apart(void *ctx)
{
    struct visit *visit = ctx;
    struct attachment *attachment = visit->run->attachment;
    const struct injection_env env = caller_env(attachment);

    stall_guard_follow(&attachment->stall_guard);
    visit->code = activation_run(&env, &attachment->instance, visit->options,
                                 &visit->run->result->activation, visit->fault);
}

static fault_code visit_seen(struct activating_run *run, const struct activation_options *options,
                             struct fault *fault)
{
    struct attachment *attachment = run->attachment;
    struct activating *result = run->result;
    struct visit visit = {run, options, fault, FAULT_NONE};
    fault_code rc = caller_prepare(attachment, fault);

    if (rc == FAULT_NONE)
        rc = need_check(attachment, fault);
    if (rc != FAULT_NONE)
        return rc;
    result->visited = true;
    apart_run(visit_apart, &visit);
    stall_guard_follow(&attachment->stall_guard);
    memcpy(result->counts, result->activation.counts, sizeof result->counts);
    if (result->activation.longest_ns > attachment->caller.longest_ns)
        attachment->caller.longest_ns = result->activation.longest_ns;
    /* A partial result: prof.active is switched, and some threads are visited. */
    result->interrupted = visit.code == FAULT_INTERRUPTED;
    return result->interrupted ? FAULT_NONE : visit.code;
}

static fault_code activate_all(struct activating_run *run, struct fault *fault)
{
    const struct attach_request *request = &run->attachment->request;
    const struct tsd_threads *threads = &run->view.threads;
    struct activation_options options = {.source = &run->view.source,
                                         .seen = threads,
                                         .switches_on = request->repairs,
                                         .no_calls = request->way == WAY_MEMORY,
                                         .may_reset = request->may_reset,
                                         .lg_sample = run->state->lg_sample,
                                         .consent = &run->attachment->caller.hooks};
    fault_code rc = FAULT_NONE;
    enum fact defect;

    if (run->state->thread_active_init == FACT_NO)
        rc = repair_init(run, fault);
    if (rc == FAULT_NONE)
        rc = view_threads(run, fault);
    if (rc != FAULT_NONE)
        return rc;
    for (size_t i = 0; i < threads->count; i++)
        if (!threads->list[i].background &&
            (!request->thread || request->thread == threads->list[i].thread.tid))
            run->result->counts[threads->list[i].sampling]++;
    run->result->unknown_why = threads->unknown_why;
    defect = tsd_defect(threads, run->state->build.text);
    options.layout = run->layout;
    options.may_sleep = defect == FACT_YES || (defect == FACT_UNKNOWN && run->layout.known);
    if ((request->way == WAY_MEMORY && !request->repairs) || !activation_wanted(&options))
        return FAULT_NONE;
    return visit_seen(run, &options, fault);
}

fault_code activating_run(struct attachment *attachment, const struct prof_state *state,
                          struct activating *result, struct fault *fault)
{
    struct activating_run run = {.attachment = attachment, .state = state, .result = result};
    fault_code rc;

    memset(result, 0, sizeof *result);
    rc = activate_all(&run, fault);
    thread_view_free(&run.view);
    return rc;
}

bool activating_is_seen(struct attachment *attachment)
{
    const bool may_visit = attachment->request.way != WAY_MEMORY || attachment->request.repairs;
    struct thread_view view;
    struct fault ignored;
    bool seen = thread_view_read(&view, attachment, 0, &ignored) == FAULT_NONE &&
                !view.threads.by_sampling[THREAD_UNKNOWN] &&
                (may_visit || !view.threads.by_sampling[THREAD_ASLEEP]);

    thread_view_free(&view);
    return seen;
}
