/* jeattach on, jeattach off */
#include "base/units.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/verbs/verbs.h"
#include "jemalloc/activate.h"
#include "run/switching.h"

#include <stdio.h>

struct change {
    const struct job *job;
    bool active; /* the new value */
    int partial; /* exit code, EXIT_DONE unless only a part was done */
    struct prof_state former;
    bool in_memory; /* by the byte, without a call */
    enum first_sample first_sample;
    uint64_t after_ns; /* the first sample was seen; 0: it was not looked for */
    bool visited;      /* all threads were visited, as some versions need */
    bool interrupted;  /* before all were visited */
    struct activation_layout layout;
    struct activation activation;
};

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void json_activation(const struct activation *activation, struct json *json)
{
    json_number(json, "threads", activation->threads);
    json_number(json, "threads_sampling", activation->sampling);
    json_number(json, "threads_woken", activation->woken);
    json_number(json, "threads_unsure", activation->unsure);
    json_number(json, "threads_missed", activation->missed);
    json_bool(json, "did_reset", activation->did_reset);
    json_number(json, "threads_longest_held_ns", activation->longest_ns);
}

/* null: none was seen, or it was not looked for. */
static void json_first_sample(const struct change *change, struct json *json)
{
    if (change->after_ns && change->first_sample == FIRST_SAMPLE_SEEN)
        json_number(json, "first_sample_ns", change->after_ns);
    else
        json_null(json, "first_sample_ns");
}

static void print_switch_json(const struct change *change)
{
    const struct attachment *attachment = change->job->attachment;
    struct json json;

    attachment_json_begin(attachment, &json);
    json_bool(&json, "old", prof_is_active(&change->former));
    json_bool(&json, "new", change->active);
    json_text(&json, "way", change->in_memory ? "memory" : "call");
    json_first_sample(change, &json);
    if (change->visited)
        json_activation(&change->activation, &json);
    attachment_json(attachment, &json);
    json_end(&json);
}

/* "threads: 8 of 8 sample; 6 had stopped ..." */
static void print_activation(const struct change *change)
{
    const struct activation *activation = &change->activation;
    char version[VERSION_TEXT_MAX];

    printf("threads: %zu of %zu sample", activation->sampling, activation->threads);
    if (activation->woken)
        printf("; %zu had stopped while profiling was not active (jemalloc %s)", activation->woken,
               message_clean(change->former.build.text, version, sizeof version));
    if (activation->did_reset)
        printf("; all samples taken before were dropped (prof.reset)");
    if (activation->unsure)
        printf("; unknown for %zu", activation->unsure);
    printf("\n");
}

static void print_switch_text(const struct change *change)
{
    const struct attachment *attachment = change->job->attachment;
    char clean[64];

    if (change->job->options->pid_count > 1)
        printf("%s[%d] ", message_clean(attachment->target.stat.comm, clean, sizeof clean),
               (int)attachment->target.pid);
    if (prof_is_active(&change->former) == change->active)
        printf("prof.active: %s (unchanged)\n", truth(change->active));
    else
        printf("prof.active: %s -> %s\n", truth(prof_is_active(&change->former)),
               truth(change->active));
    if (change->visited)
        print_activation(change);
}

static bool is_changed(const struct change *change)
{
    return prof_is_active(&change->former) != change->active;
}

static void print_first_sample(const struct change *change, const char *name)
{
    int pid = (int)change->job->attachment->target.pid;
    char after[UNITS_TEXT];

    if (!change->after_ns)
        return;
    units_duration(change->after_ns, after);
    if (change->first_sample == FIRST_SAMPLE_SEEN)
        message("%s[%d] first samples seen after %s", name, pid, after);
    else if (change->first_sample == FIRST_SAMPLE_IDLE)
        message("%s[%d] no sample yet: none of its threads is running", name, pid);
    else if (change->first_sample == FIRST_SAMPLE_NONE)
        message("%s[%d] no sample within %s: the process may not be allocating", name, pid, after);
}

/* "redis-server[4242] one byte written in its memory; no thread was stopped" */
static void print_in_memory(const struct change *change)
{
    const struct target *target = &change->job->attachment->target;
    char clean[64];

    if (change->job->options->quiet)
        return;
    fflush(stdout);
    message("%s[%d] one byte %s its memory; no thread was stopped",
            message_clean(target->stat.comm, clean, sizeof clean), (int)target->pid,
            is_changed(change) ? "written in" : "read from");
    print_first_sample(change, clean);
}

static fault_code change_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct change *change = ctx;
    fault_code rc = prof_switch(&attachment->injection, &attachment->instance, change->active,
                                &change->former, fault);

    if (rc == FAULT_NONE && change->active && activation_needed(change->former.build.text))
        rc =
            activation_learn(&attachment->injection, &attachment->instance, &change->layout, fault);
    return rc;
}

static fault_code visit_switch_threads(struct change *change, struct fault *fault)
{
    struct attachment *attachment = change->job->attachment;
    const struct injection_env env = attachment_env(attachment);
    const struct activation_options options = {
        .layout = change->layout,
        .may_reset = change->job->options->allow_reset,
        .lg_sample = change->former.lg_sample,
        .consent = &attachment->hooks,
    };
    fault_code rc;

    change->visited = true;
    rc = activation_run(&env, &attachment->instance, &options, &change->activation, fault);
    /* A partial result: prof.active is switched, and some threads are visited. */
    change->interrupted = rc == FAULT_INTERRUPTED;
    return change->interrupted ? FAULT_NONE : rc;
}

static const char *missed_cause(const struct change *change, const struct fault *fault, char *out,
                                size_t size)
{
    const struct subject subject = job_subject(change->job);

    if (fault->code != FAULT_NONE && fault->code != FAULT_INTERRUPTED)
        return message_cause(&subject, fault, out, size);
    return change->interrupted ? "interrupted before its turn" : "timed out before its turn";
}

/* Reports threads that do not sample yet. Returns the exit code. */
static int tell_missed(const struct change *change)
{
    const struct activation *activation = &change->activation;
    int pid = (int)change->job->attachment->request.pid;
    char name[64], cause[512];

    for (size_t i = 0; i < activation->missed && i < ACTIVATION_NAMED; i++) {
        const struct activation_missed *missed = &activation->first_missed[i];
        message("thread %d (%s) does not sample yet: %s", (int)missed->tid,
                message_clean(missed->comm, name, sizeof name),
                missed_cause(change, &missed->fault, cause, sizeof cause));
    }
    if (activation->missed > ACTIVATION_NAMED)
        message("and %zu more threads", activation->missed - ACTIVATION_NAMED);
    if (activation->missed)
        message("to reach them, run jeattach on %d again, with a longer --timeout", pid);
    if (activation->unsure)
        message("%zu threads sample only if they have not sampled before, which a build without "
                "statistics does not show; jeattach on --allow-reset %d makes all of them sample, "
                "and drops all samples taken so far",
                activation->unsure, pid);
    if (change->interrupted)
        return EXIT_INTERRUPTED;
    return activation->missed ? EXIT_NO_SAFE_POINT : EXIT_DONE;
}

static void print_change(const struct change *change)
{
    if (change->job->options->json)
        print_switch_json(change);
    else
        print_switch_text(change);
}

static fault_code switch_by_call(struct change *change, struct fault *fault)
{
    const struct job *job = change->job;
    fault_code rc;

    if (job->options->dry_run)
        return job_describe(job, change->active ? verb_on.calls : verb_off.calls, fault);
    rc = attachment_hold(job->attachment, change_held, change, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (change->active && activation_needed(change->former.build.text))
        rc = visit_switch_threads(change, fault);
    print_change(change);
    if (rc == FAULT_NONE)
        change->partial = tell_missed(change);
    return rc;
}

static fault_code switch_in_memory(struct change *change, struct fault *fault)
{
    const struct job *job = change->job;
    fault_code rc;

    if (job->options->dry_run)
        return job_describe_memory(job, "prof.active is one byte in the memory of the process");
    rc = switching_write(job->attachment, change->active, &change->former, fault);
    if (rc != FAULT_NONE)
        return rc;
    change->in_memory = true;
    if (change->active && is_changed(change) && (!job->options->quiet || job->options->json))
        change->first_sample = switching_await(job->attachment, &change->after_ns);
    print_change(change);
    print_in_memory(change);
    return FAULT_NONE;
}

/* Where opt.prof is false, no call can switch profiling on either. */
static fault_code refuse_switch(struct change *change, const char *why, struct fault *fault)
{
    struct build *build = &change->former.build;

    if (build->opt_prof == FACT_NO && build->config_prof == FACT_UNKNOWN) {
        build->config_prof = FACT_YES; /* as reader_open does */
        return build_can_profile(build, fault);
    }
    return switching_refuse(change->job->attachment, why, fault);
}

/* A call, because the byte is not certain. */
static fault_code switch_otherwise(struct change *change, const char *why, struct fault *fault)
{
    struct attachment *attachment = change->job->attachment;
    fault_code rc;

    if (attachment->request.way == WAY_MEMORY)
        return refuse_switch(change, why, fault);
    if (change->job->options->verbose)
        message("a call is needed: %s", why);
    rc = attachment_prepare(attachment, fault);
    return rc == FAULT_NONE ? switch_by_call(change, fault) : rc;
}

static fault_code perform_switch(struct change *change, struct fault *fault)
{
    struct attachment *attachment = change->job->attachment;
    const char *why;
    fault_code rc;

    if (attachment->request.way == WAY_CALL)
        return switch_by_call(change, fault);
    why = switching_find(attachment, change->active, &change->former);
    if (why)
        return switch_otherwise(change, why, fault);
    rc = switch_in_memory(change, fault);
    if (rc != FAULT_UNWRITABLE || attachment->request.way == WAY_MEMORY)
        return rc;
    return switch_otherwise(change, "its memory cannot be written", fault);
}

static int switch_to(const struct options *options, pid_t pid, bool active)
{
    struct change change = {.active = active, .partial = EXIT_DONE};
    struct attachment attachment;
    struct attach_request request;
    struct fault fault;
    struct job job;
    fault_code rc;

    change.job = &job;
    job_init(&job, &attachment, options,
             active ? "switch profiling on in process" : "switch profiling off in process");
    request = job_request(&job, pid);
    if (request.way == WAY_CALL)
        rc = attachment_open(&attachment, &request, &fault);
    else
        rc = attachment_find(&attachment, &request, &fault);
    if (rc == FAULT_NONE)
        rc = perform_switch(&change, &fault);
    int code = job_finish(&job, rc, &fault);
    return code != EXIT_DONE ? code : change.partial;
}

static int on_main(const struct options *options, pid_t pid)
{
    return switch_to(options, pid, true);
}

static int off_main(const struct options *options, pid_t pid)
{
    return switch_to(options, pid, false);
}

const struct verb verb_on = {
    .name = "on",
    .summary = "start sampling allocations (prof.active)",
    .synopses = {"[options] PID..."},
    .takes = TAKES_ALLOW_RESET | TAKES_HOOKS | TAKES_WAY,
    .intro = "Sets prof.active to true, reads it back, and prints the old and the new value.\n"
             "Repeating it is harmless. Allocations made from now on are sampled; existing\n"
             "ones are not seen. The process must have been started with prof:true.\n"
             "\n"
             "prof.active is one byte. Where its address is certain, it is written in the\n"
             "memory of the process: no call is made and no thread is stopped, so it works on\n"
             "a process that is stopped, frozen or traced, too. Then waits for the first\n"
             "sample, at most 300 ms. Elsewhere a thread of the process calls jemalloc.\n"
             "\n"
             "jemalloc 5.2.0 and 5.2.1 do not sample in threads that allocated while\n"
             "prof.active was false. With these versions a call is made, and each thread is\n"
             "stopped once and gets a new count of bytes until its next sample; the exit code\n"
             "is 7 if some threads could not be reached.\n",
    .calls =
        {
            "mallctl version, config.prof, opt.prof, prof.active, ... (read)",
            "mallctl prof.active (write, then read back), if it has another value",
            "on 5.2: mallctl thread.allocatedp, thread.deallocatedp (read); then a look at each "
            "thread",
        },
    .run = on_main,
};

const struct verb verb_off = {
    .name = "off",
    .summary = "stop sampling allocations",
    .synopses = {"[options] PID..."},
    .takes = TAKES_WAY,
    .intro = "Sets prof.active to false, reads it back, and prints the old and the new value:\n"
             "like on, in the memory of the process or by a call. Samples taken so far stay in\n"
             "the profile.\n",
    .calls =
        {
            "mallctl version, config.prof, opt.prof, prof.active, ... (read)",
            "mallctl prof.active (write, then read back), if it has another value",
        },
    .run = off_main,
};
