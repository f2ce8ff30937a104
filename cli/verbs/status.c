/* jeattach status */
#include "attach/permit.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/advice.h"
#include "cli/output/attachment_json.h"
#include "cli/output/thread_view.h"
#include "cli/verbs/core.h"
#include "cli/verbs/verbs.h"
#include "cli/verdict.h"
#include "jemalloc/facts.h"
#include "jemalloc/stripped/stripped.h"
#include "run/access.h"
#include "run/activating.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REJECTIONS_SHOWN = 3, FLAW_TEXT = CONF_TEXT_MAX + 512 };

struct status {
    struct job *job;
    struct attachment *attachment; /* of the job */
    struct conf conf;
    struct prof_state state;
    struct fault refusal; /* why an attach would fail; FAULT_NONE: it is possible */
    bool refusal_certain;
    struct fault_words refusal_words;
    bool readable, switchable; /* with a refusal: the profile, prof.active, through memory */
    bool has_threads;          /* they were read: they matter where opt.prof is true */
    struct thread_view view;
};

static const char *found_text(enum found_by found_by)
{
    static const char *const texts[] = {
        [FOUND_DYNSYM] = ".dynsym",
        [FOUND_SYMTAB] = ".symtab",
        [FOUND_MINIDEBUG] = ".gnu_debugdata",
        [FOUND_DEBUGFILE] = "debug file",
        [FOUND_TABLES] = "tables",
    };
    return texts[found_by];
}

/* "mallctl in .dynsym" */
static const char *found_where(const struct instance *instance, char *out, size_t size)
{
    if (instance->found_by == FOUND_TABLES)
        snprintf(out, size, "mallctl at %#llx, without a name, by its tables",
                 (unsigned long long)instance->mallctl);
    else
        snprintf(out, size, "%smallctl in %s", instance->prefix, found_text(instance->found_by));
    return out;
}

static void list_json(struct attachment *attachment, struct json *json)
{
    const struct instances *instances = &attachment->instances;

    json_list_begin(json, "instances");
    for (size_t i = 0; i < instances->count; i++) {
        const struct instance *instance = &instances->list[i];
        char version[VERSION_TEXT_MAX] = "";
        stripped_version(instance, &attachment->target, &attachment->memory, version,
                         sizeof version);
        JSON_ITEM(json, NUMBER("instance", i + 1), TEXT("module", instance->module.path),
                  TEXT("prefix", instance->prefix), TEXT("version", version),
                  TEXT("found_by", found_text(instance->found_by)),
                  FLAG("chosen", i == instances->chosen));
    }
    json_list_end(json);
}

static void list_text(struct attachment *attachment)
{
    const struct instances *instances = &attachment->instances;
    char path[512], place[160], clean[VERSION_TEXT_MAX];

    if (instances->count < 2)
        return;
    printf("  instances     %zu; --instance N chooses\n", instances->count);
    for (size_t i = 0; i < instances->count; i++) {
        const struct instance *instance = &instances->list[i];
        char version[VERSION_TEXT_MAX] = "?";
        stripped_version(instance, &attachment->target, &attachment->memory, version,
                         sizeof version);
        printf("   %c%2zu %s, %s (%s)\n", i == instances->chosen ? '*' : ' ', i + 1,
               message_clean(version, clean, sizeof clean),
               message_clean(instance->module.path, path, sizeof path),
               found_where(instance, place, sizeof place));
    }
}

static bool is_judged(const struct status *status)
{
    return prof_judge(&status->state) != PROF_UNKNOWN;
}

/* A process that has ended can only be dumped, or started in another way. */
static void next_step_of_core(const struct status *status, char *out, size_t size)
{
    enum prof_verdict verdict = prof_judge(&status->state);

    if (verdict == PROF_ABSENT || verdict == PROF_DISABLED)
        (void)verdict_next(&status->state, &status->conf, 0, out, size);
    else if (status->state.build.opt_prof == FACT_NO)
        snprintf(out, size, "start it with %s=prof:true, and a jemalloc built with --enable-prof",
                 status->conf.variable.name);
    else
        snprintf(out, size, "jeattach dump --core %s -f text", status->job->options->core);
}

/* True if a thread does not sample although its process does, or will. */
static bool has_silent_threads(const struct status *status)
{
    const size_t *counts = status->view.threads.by_sampling;

    return status->has_threads &&
           (counts[THREAD_OFF] || (prof_is_active(&status->state) && counts[THREAD_ASLEEP]));
}

/* The step of those threads; false: there is none. */
static bool next_for_threads(const struct status *status, char *out, size_t size)
{
    enum prof_verdict verdict = prof_judge(&status->state);
    bool off = status->view.threads.by_sampling[THREAD_OFF] != 0;

    if (!has_silent_threads(status) || (verdict != PROF_INACTIVE && verdict != PROF_READY))
        return false;
    snprintf(out, size, "jeattach on %s%d", off ? "--repair " : "",
             (int)status->attachment->target.pid);
    return true;
}

/* The step that needs no attach; false: there is none. */
static bool next_without_attach(const struct status *status, char *out, size_t size)
{
    enum prof_verdict verdict = prof_judge(&status->state);
    int pid = (int)status->attachment->target.pid;

    if (verdict == PROF_INACTIVE && status->switchable)
        snprintf(out, size, "jeattach on %d", pid);
    else if (verdict == PROF_READY && status->readable)
        snprintf(out, size, "jeattach dump %d -f text", pid);
    else
        return false;
    return true;
}

/* Suggests no step that attaches if an attach would be refused. */
static void next_step(const struct status *status, char *out, size_t size)
{
    int pid = (int)status->attachment->target.pid;
    bool refused = status->refusal.code != FAULT_NONE, attaches = true;

    out[0] = '\0';
    if (status->job->options->core) {
        next_step_of_core(status, out, size);
        return;
    }
    if (is_judged(status))
        attaches = next_for_threads(status, out, size) ||
                   verdict_next(&status->state, &status->conf, pid, out, size);
    if (refused && next_without_attach(status, out, size))
        return;
    if (refused && attaches)
        snprintf(out, size, "%s", status->refusal_words.fix);
    else if (!is_judged(status))
        snprintf(out, size, "jeattach mallctl %d config.prof opt.prof prof.active", pid);
}

/* Why it is disabled; "": not known, or it is not. */
static const char *status_cause(const struct status *status, char out[FLAW_TEXT])
{
    out[0] = '\0';
    return prof_judge(&status->state) == PROF_DISABLED
               ? verdict_why(&status->state.build, &status->conf, out, FLAW_TEXT)
               : out;
}

/* ---- JSON ---- */

#define SOURCE(name, source)                                                                       \
    FLAG(name "_known", (source).known), TEXT_IF((source).set, name "_value", (source).text)

static void json_conf(struct json *json, const struct conf *conf)
{
    JSON_MEMBERS(json, TEXT("variable", conf->variable.name), SOURCE("variable", conf->variable),
                 FLAG("environment_overwritten", conf->overwritten), TEXT("link", conf->link.name),
                 SOURCE("link", conf->link), TEXT("symbol", conf->symbol.name),
                 SOURCE("symbol", conf->symbol), SOURCE("built_in", conf->built_in),
                 TEXT_IF(conf->foreign.set, "other_variable", conf->foreign.name),
                 SOURCE("other_variable", conf->foreign));
}

struct rejections {
    const struct conf_source *source;
    const struct build *build;
    struct json *json;
    size_t count;
};

static void json_rejection(void *ctx, const struct conf_setting *setting)
{
    const struct rejections *rejections = ctx;
    char why[FLAW_TEXT], piece[CONF_TEXT_MAX];

    snprintf(piece, sizeof piece, "%.*s", (int)setting->len, setting->text);
    JSON_ITEM(rejections->json, TEXT("source", rejections->source->name), TEXT("setting", piece),
              TEXT("why", verdict_flaw(setting, rejections->build, why, sizeof why)));
}

static void json_rejected(struct json *json, const struct status *status)
{
    const struct conf_source *sources[CONF_SOURCES];

    conf_sources(&status->conf, sources);
    json_list_begin(json, "rejected");
    for (size_t i = 0; i < CONF_SOURCES; i++) {
        struct rejections rejections = {sources[i], &status->state.build, json, 0};
        verdict_flaws(sources[i], rejections.build, json_rejection, &rejections);
    }
    json_list_end(json);
}

static void json_facts(struct json *json, const struct prof_state *state)
{
    JSON_MEMBERS(json, TEXT_OR_NULL("version", state->build.text),
                 FACT("config.prof", state->build.config_prof),
                 FACT("config.stats", state->build.config_stats),
                 FACT("opt.prof", state->build.opt_prof), FACT("prof.active", state->prof_active),
                 FACT("prof.thread_active_init", state->thread_active_init),
                 NUMBER_IF(state->lg_sample_known, "prof.lg_sample", state->lg_sample),
                 TEXT_IF(state->prefix_known, "opt.prof_prefix", state->prefix));
}

static void json_attach(struct json *json, const struct status *status)
{
    if (status->job->options->core) {
        json_null(json, "attach");
        return;
    }
    json_object_begin(json, "attach");
    json_bool(json, "possible", status->refusal.code == FAULT_NONE);
    if (status->refusal.code != FAULT_NONE)
        message_json(json, &status->refusal, &status->refusal_words);
    if (status->refusal.code != FAULT_NONE)
        JSON_MEMBERS(json, FLAG("profile_readable", status->readable),
                     FLAG("active_writable", status->switchable));
    json_object_end(json);
}

static void json_threads(struct json *json, const struct status *status)
{
    if (status->has_threads)
        thread_counts_json(status->view.threads.by_sampling, json);
    else
        json_null(json, "threads");
}

static void print_status_json(struct status *status)
{
    const struct attachment *attachment = status->attachment;
    const struct instance *instance = &attachment->instance;
    char next[2 * CONF_TEXT_MAX + 256], cause[FLAW_TEXT];
    struct json json;

    next_step(status, next, sizeof next);
    attachment_json_begin(attachment, &json);
    JSON_MEMBERS(&json, TEXT("module", instance->module.path), TEXT("prefix", instance->prefix),
                 TEXT("found_by", found_text(instance->found_by)));
    json_conf(&json, &status->conf);
    json_rejected(&json, status);
    json_text(&json, "source", status->job->options->core ? "core" : "memory");
    json_facts(&json, &status->state);
    json_threads(&json, status);
    JSON_MEMBERS(&json, TEXT_OR_NULL("verdict", verdict_name(prof_judge(&status->state))),
                 TEXT_OR_NULL("cause", status_cause(status, cause)), TEXT("next", next));
    json_attach(&json, status);
    list_json(status->attachment, &json);
    attachment_json(attachment, &json);
    json_end(&json);
}

/* ---- text ---- */

/* unknown: why the value may be unknown */
static void print_status_row(const char *name, enum fact value, const char *unknown,
                             const char *when_true, const char *when_false)
{
    static const char *const words[] = {
        [FACT_UNKNOWN] = "?",
        [FACT_NO] = "no",
        [FACT_YES] = "yes",
    };
    const char *text = value == FACT_UNKNOWN ? unknown : value == FACT_YES ? when_true : when_false;

    printf("  %-13s %-4s %s\n", name, words[value], text);
}

static void print_rejection(void *ctx, const struct conf_setting *setting)
{
    struct rejections *rejections = ctx;
    char why[FLAW_TEXT];

    if (rejections->count++ < REJECTIONS_SHOWN)
        printf("  %-13s rejected: %s\n", "",
               verdict_flaw(setting, rejections->build, why, sizeof why));
}

/* Prints one source of options, and what jemalloc does not take of it. */
static void print_source(const char *label, const struct conf_source *source,
                         const struct build *build, bool always)
{
    struct rejections rejections = {.source = source, .build = build};
    char text[CONF_TEXT_MAX];

    if (source->set)
        printf("  %-13s %s='%s'\n", label, source->name,
               message_clean(source->text, text, sizeof text));
    else if (always || !source->known)
        printf("  %-13s %s %s\n", label, source->name,
               source->known ? "is not set" : "cannot be read");
    verdict_flaws(source, build, print_rejection, &rejections);
    if (rejections.count > REJECTIONS_SHOWN)
        printf("  %-13s and %zu more\n", "", rejections.count - REJECTIONS_SHOWN);
}

static void print_conf(const struct conf *conf, const struct build *build)
{
    char text[CONF_TEXT_MAX], name[CONF_NAME_MAX];

    if (conf->overwritten && !conf->variable.set)
        printf("  %-13s %s ?: the process has overwritten its initial environment\n", "environment",
               conf->variable.name);
    else
        print_source("environment", &conf->variable, build, true);
    if (conf->overwritten && conf->variable.set)
        printf("  %-13s current value: the process has overwritten its initial environment\n", "");
    if (conf->link.name[0])
        print_source("link", &conf->link, build, false);
    if (conf->symbol.set)
        print_source("in the code", &conf->symbol, build, false);
    if (conf->built_in.set)
        print_source("built in", &conf->built_in, build, false);
    if (conf->foreign.set)
        printf("  %-13s %s='%s' is set, but this jemalloc reads %s\n", "not read",
               message_clean(conf->foreign.name, name, sizeof name),
               message_clean(conf->foreign.text, text, sizeof text), conf->variable.name);
}

static const char *unknown_text(const struct status *status)
{
    if (status->job->options->core)
        return "unknown: not in the core file";
    return verdict_text(PROF_UNKNOWN);
}

/* The answer, its cause, and the jemalloc that it is about. */
static void print_head(struct status *status)
{
    const struct attachment *attachment = status->attachment;
    const struct instance *instance = &attachment->instance;
    const char *known = status->state.build.text;
    char name[PROCESS_TEXT], path[512], version[VERSION_TEXT_MAX], place[160], inside[80] = "",
                                                                               cause[FLAW_TEXT];

    if (status->job->origin)
        snprintf(inside, sizeof inside, "%s", status->job->origin);
    else if (target_ns_pid(&attachment->target) != attachment->target.pid)
        snprintf(inside, sizeof inside, " (pid %d in its container)",
                 (int)target_ns_pid(&attachment->target));
    printf("%s%s: %s%s\n", job_process(status->job, name), inside,
           is_judged(status) ? "" : "whether profiling is possible is ",
           is_judged(status) ? verdict_text(prof_judge(&status->state)) : unknown_text(status));
    if (*status_cause(status, cause))
        printf("  cause         %s\n", cause);
    printf("  jemalloc      %s\n", *known ? message_clean(known, version, sizeof version) : "?");
    printf("  module        %s (%s%s)\n", message_clean(instance->module.path, path, sizeof path),
           found_where(instance, place, sizeof place),
           instance->module.deleted ? ", file deleted" : "");
    list_text(status->attachment);
}

static void print_facts(const struct prof_state *state, const char *unknown)
{
    char prefix[512], period[UNITS_TEXT] = "unknown";

    if (state->lg_sample < 64)
        units_bytes(ldexp(1, (int)state->lg_sample), period);
    print_status_row("config.prof", state->build.config_prof, unknown, "profiling is compiled in",
                     "this jemalloc was built without profiling");
    print_status_row("opt.prof", state->build.opt_prof, unknown, "profiling was enabled at start",
                     "profiling was not enabled at start");
    print_status_row("prof.active", state->prof_active, unknown, "allocations are sampled now",
                     "allocations are not sampled now");
    if (state->build.opt_prof != FACT_YES)
        return;
    print_status_row("thread init", state->thread_active_init, unknown,
                     "new threads sample (prof.thread_active_init)",
                     "new threads do not sample (prof.thread_active_init)");
    if (state->lg_sample_known)
        printf("  period        a sample every %s on average (prof.lg_sample %llu)\n", period,
               (unsigned long long)state->lg_sample);
    if (state->prefix_known)
        printf("  prefix        the names of dumps begin with '%s' (opt.prof_prefix)\n",
               message_clean(state->prefix, prefix, sizeof prefix));
}

static bool samples_now(const struct prof_state *state)
{
    return state->build.opt_prof == FACT_YES && prof_is_active(state);
}

static void print_status_threads(const struct status *status)
{
    const struct tsd_threads *threads = &status->view.threads;
    char text[THREAD_COUNTS_TEXT];

    if (status->has_threads)
        printf("  threads       %s\n",
               thread_counts_text(threads->by_sampling, prof_is_active(&status->state),
                                  threads->unknown_why, text));
    if (!status->job->options->core && samples_now(&status->state) &&
        threads->by_sampling[THREAD_UNKNOWN] &&
        tsd_defect(threads, status->state.build.text) == FACT_YES)
        printf("  note          in this version, threads that allocated while prof.active was "
               "false do not sample until: jeattach on %d\n",
               (int)status->attachment->target.pid);
}

static void print_refusal(const struct status *status)
{
    printf("attach: refused: %s; %s\n", status->refusal_words.cause, status->refusal_words.fix);
    if (status->readable && status->switchable)
        printf("memory: readable: dump -o, record, leak, top, watch, on, off and stats "
               "need no attach\n");
    else if (status->readable)
        printf("memory: readable: dump -o, top, watch and stats need no attach\n");
}

/* "": the step has it */
static const char *reason_of(const char *next)
{
    static const struct {
        const char *command, *reason;
    } reasons[] = {
        {"jeattach on ", "this samples objects from now on"},
        {"jeattach dump ", "its profile shows which calls allocated what is in use"},
    };

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (strncmp(next, reasons[i].command, strlen(reasons[i].command)) == 0)
            return reasons[i].reason;
    return "";
}

static void print_status_text(struct status *status)
{
    char next[2 * CONF_TEXT_MAX + 256];

    next_step(status, next, sizeof next);
    print_head(status);
    print_facts(&status->state, unknown_text(status));
    print_status_threads(status);
    print_conf(&status->conf, &status->state.build);
    if (status->job->options->core)
        printf("attach: not possible: the process has ended\n");
    else if (status->refusal.code == FAULT_NONE)
        printf("attach: possible\n");
    else
        print_refusal(status);
    if (memory_is_pinned(&status->attachment->memory))
        printf("memory: without CAP_DAC_OVERRIDE, /proc/PID/mem is closed: objects are not "
               "counted\n");
    advice_print_next(next, reason_of(next), stdout);
}

/* ---- the verb ---- */

static void read_memory(struct status *status)
{
    struct attachment *attachment = status->attachment;

    attachment_read_facts(attachment, &status->state);
    conf_read(&status->conf, &attachment->instance, &attachment->modules, &attachment->target,
              &attachment->memory);
    conf_read_built_in(&status->conf, &attachment->instance, &attachment->target,
                       &attachment->memory);
}

/* Finds the words for the refusal, and what works all the same. */
static void explain_refusal(struct status *status)
{
    struct attachment *attachment = status->attachment;
    const struct subject subject = job_subject(status->job);
    struct prof_state state;

    message_words(&subject, &status->refusal, &status->refusal_words);
    status->readable = access_reads(attachment);
    status->switchable = status->readable && !access_find_byte(attachment, true, &state);
}

/* Predicts whether an attach is possible, without one; if not, what works all the same. */
static void foresee(struct status *status)
{
    struct attachment *attachment = status->attachment;

    permit_forecast(&attachment->target, status->job->options->thread, &status->refusal_certain,
                    &status->refusal);
    if (status->refusal.code == FAULT_NONE && attachment->target.stat.state == 'T') {
        fault_set(&status->refusal, FAULT_STOPPED, 0, "examine", "its first thread");
        status->refusal_certain = true;
    }
    if (status->refusal.code != FAULT_NONE)
        explain_refusal(status);
}

static void print_status(struct status *status)
{
    if (status->job->options->json)
        print_status_json(status);
    else
        print_status_text(status);
}

/* That they cannot be listed is no reason to hide the rest. */
static void read_threads(struct status *status)
{
    struct fault ignored;

    status->has_threads =
        status->state.build.opt_prof == FACT_YES &&
        thread_view_read(&status->view, status->attachment, 0, &ignored) == FAULT_NONE;
}

static fault_code perform_status(struct job *job, void *ctx, struct fault *fault)
{
    struct status *status = ctx;
    fault_code rc;

    status->job = job;
    status->attachment = job->attachment;
    read_memory(status);
    if (!job->origin) {
        foresee(status);
        rc = target_check(&job->attachment->target, fault);
        if (rc != FAULT_NONE)
            return rc;
        read_threads(status);
    }
    print_status(status);
    return FAULT_NONE;
}

static int status_main(const struct options *options, pid_t pid)
{
    struct status status = {0};
    int code;

    if (options->core)
        code = core_run(options, "examine core file", perform_status, &status);
    else
        code = job_run(options, pid, JOB_READS, "examine process", perform_status, &status);
    thread_view_free(&status.view);
    return code;
}

const struct verb verb_status = {
    .name = "status",
    .summary = "show whether jemalloc can profile, whether it does, and what to do",
    .synopses = {"[options] PROCESS...", "--core FILE [--exe FILE] [--root DIR] [options]"},
    .examples = {{"jeattach status 4242", "whether it can be profiled, and what to do"},
                 {"jeattach status redis-server -v", "also its modules, threads and settings"}},
    .takes = TAKES_CORE | TAKES_WAY,
    .intro = "Shows which jemalloc a process uses, whether profiling was compiled in\n"
             "(config.prof), was enabled at start (opt.prof) and is active now (prof.active),\n"
             "the sampling period, the origin of its options, and the next step.\n"
             "All is read from memory; values that cannot be are shown as ?.\n"
             "A setting that jemalloc rejects is named below its source, with the reason, and\n"
             "the next step then has what jemalloc accepts.\n"
             "If the process contains several jemallocs, all are listed; the details are of\n"
             "the one that serves malloc, or of --instance N.\n"
             "\n"
             "The line 'attach:' shows whether the other verbs can attach: the one cause that\n"
             "forbids it, and the fix. This is determined without attaching.\n"
             "\n"
             "With --core the process has ended, and its core file shows what its memory was.\n",
    .run = status_main,
};
