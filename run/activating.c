#include "run/activating.h"
#include "run/apart.h"
#include "run/faults.h"
#include "run/need.h"
#include "run/thread_view.h"

#include <string.h>

struct activating_run {
    struct attachment *attachment;
    const struct prof_state *state;
    struct activating *result;
    struct thread_view view;
    struct activation_layout layout;
};

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

    if (run->state->thread_active_init != FACT_NO)
        return FAULT_NONE;
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

static struct activation_options describe_visits(struct activating_run *run)
{
    const struct attach_request *request = &run->attachment->request;
    const enum fact defect = tsd_defect(&run->view.threads, run->state->build.text);

    return (struct activation_options){
        .layout = run->layout,
        .seen = &run->view.threads,
        .source = &run->view.source,
        .may_sleep = defect == FACT_YES || (defect == FACT_UNKNOWN && run->layout.known),
        .switches_on = request->repairs,
        .no_calls = request->way == WAY_MEMORY,
        .may_reset = request->may_reset,
        .lg_sample = run->state->lg_sample,
        .consent = &run->attachment->caller.hooks,
    };
}

static void count_seen(struct activating_run *run)
{
    const struct tsd_threads *threads = &run->view.threads;
    const pid_t only = run->attachment->request.thread;

    memset(run->result->counts, 0, sizeof run->result->counts);
    for (size_t i = 0; i < threads->count; i++)
        if (!threads->list[i].background && (!only || only == threads->list[i].thread.tid))
            run->result->counts[threads->list[i].sampling]++;
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
    fault_code rc = repair_init(run, fault);

    if (rc == FAULT_NONE)
        rc = view_threads(run, fault);
    if (rc != FAULT_NONE)
        return rc;
    count_seen(run);
    run->result->unknown_why = run->view.threads.unknown_why;
    const struct activation_options options = describe_visits(run);
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
