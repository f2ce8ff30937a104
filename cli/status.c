/* jeattach status */
#include "cli/attachment.h"
#include "cli/verbs.h"
#include "cli/verdict.h"
#include "jemalloc/activate.h"
#include "jemalloc/peek.h"

#include <stdio.h>
#include <string.h>

struct status {
    struct attachment attachment;
    struct conf conf;
    bool called;             /* state was read by a call */
    struct prof_state state; /* else what the memory tells is in peek */
    struct prof_peek peek;
};

static const char *found_text(enum found_by found_by)
{
    return found_by == FOUND_DYNSYM ? ".dynsym" : ".symtab";
}

/* ---- JSON ---- */

static void json_maybe(struct json *json, const char *name, bool known, bool value)
{
    if (known)
        json_bool(json, name, value);
    else
        json_null(json, name);
}

static void json_source(struct json *json, const char *kind, const struct conf_source *source)
{
    char member[64];

    snprintf(member, sizeof member, "%s_known", kind);
    json_bool(json, member, source->known);
    snprintf(member, sizeof member, "%s_value", kind);
    if (source->set)
        json_text(json, member, source->text);
    else
        json_null(json, member);
}

static void json_conf(struct json *json, const struct conf *conf)
{
    json_text(json, "variable", conf->variable.name);
    json_source(json, "variable", &conf->variable);
    json_bool(json, "environment_overwritten", conf->overwritten);
    json_text(json, "link", conf->link.name);
    json_source(json, "link", &conf->link);
    json_text(json, "symbol", conf->symbol.name);
    json_source(json, "symbol", &conf->symbol);
    if (conf->foreign.set)
        json_text(json, "other_variable", conf->foreign.name);
    else
        json_null(json, "other_variable");
    json_source(json, "other_variable", &conf->foreign);
}

static void json_state(struct json *json, const struct status *status)
{
    const struct prof_state *state = &status->state;
    char next[2048];

    json_text(json, "version", state->version);
    json_bool(json, "config.prof", state->compiled_in);
    json_bool(json, "config.stats", state->stats);
    json_text(json, "config.malloc_conf", state->built_in);
    json_bool(json, "opt.prof", state->enabled);
    json_bool(json, "prof.active", state->active);
    json_bool(json, "prof.thread_active_init", state->thread_active_init);
    json_number(json, "prof.lg_sample", state->lg_sample);
    json_text(json, "opt.prof_prefix", state->prefix);
    json_text(json, "verdict", verdict_name(prof_judge(state)));
    verdict_next(state, &status->conf, (int)status->attachment.target.pid, next, sizeof next);
    json_text(json, "next", next);
    attachment_json(&status->attachment, json);
}

/* What was seen, as if it had been read: what was not has the value that changes no verdict. */
static bool peek_state(const struct prof_peek *peek, struct prof_state *state)
{
    memset(state, 0, sizeof *state);
    state->compiled_in = state->thread_active_init = true;
    state->enabled = peek->enabled;
    state->active = peek->active;
    state->lg_sample = peek->lg_sample_known ? peek->lg_sample : PROF_LG_DEFAULT;
    return peek->enabled_known && (peek->active_known || !peek->enabled);
}

static void json_peek(struct json *json, const struct status *status)
{
    const struct prof_peek *peek = &status->peek;
    struct prof_state state;
    char next[2048];

    json_maybe(json, "opt.prof", peek->enabled_known, peek->enabled);
    json_maybe(json, "prof.active", peek->active_known, peek->enabled && peek->active);
    if (peek->lg_sample_known)
        json_number(json, "prof.lg_sample", peek->lg_sample);
    else
        json_null(json, "prof.lg_sample");
    if (peek_state(peek, &state)) {
        verdict_next(&state, &status->conf, (int)status->attachment.target.pid, next, sizeof next);
        json_text(json, "verdict", verdict_name(prof_judge(&state)));
        json_text(json, "next", next);
    } else {
        json_null(json, "verdict");
        json_null(json, "next");
    }
    json_number(json, "calls", 0);
}

static void print_json(const struct status *status)
{
    const struct attachment *attachment = &status->attachment;
    const struct instance *instance = &attachment->instance;
    struct json json;

    json_begin(&json, stdout);
    json_number(&json, "pid", (uint64_t)attachment->target.pid);
    json_text(&json, "name", attachment->target.stat.comm);
    json_text(&json, "module", instance->module.path);
    json_text(&json, "prefix", instance->prefix);
    json_text(&json, "found_by", found_text(instance->found_by));
    json_conf(&json, &status->conf);
    if (status->called)
        json_state(&json, status);
    else
        json_peek(&json, status);
    json_end(&json);
}

/* ---- text ---- */

static void print_row(const char *name, bool value, const char *when_true, const char *when_false)
{
    printf("  %-13s %-4s %s\n", name, value ? "yes" : "no", value ? when_true : when_false);
}

/* "64 KiB" */
static void format_period(uint64_t lg_sample, char *out, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = (unsigned)(lg_sample / 10);

    if (lg_sample > 63)
        snprintf(out, size, "unknown");
    else
        snprintf(out, size, "%u %s", 1u << (lg_sample % 10), units[unit]);
}

/* One place that options can come from. */
static void print_source(const char *label, const struct conf_source *source, bool always)
{
    char text[CONF_TEXT_MAX];

    if (source->set)
        printf("  %-13s %s='%s'\n", label, source->name,
               message_clean(source->text, text, sizeof text));
    else if (always || !source->known)
        printf("  %-13s %s %s\n", label, source->name,
               source->known ? "is not set" : "cannot be looked at");
}

static void print_conf(const struct conf *conf, const char *built_in)
{
    char text[CONF_TEXT_MAX], name[CONF_NAME_MAX];

    print_source("environment", &conf->variable, true);
    if (conf->overwritten)
        printf("  %-13s as it is now: the one it was started with has been overwritten\n", "");
    print_source("link", &conf->link, false);
    if (conf->symbol.set)
        print_source("in the code", &conf->symbol, false);
    if (*built_in)
        printf("  %-13s '%s'\n", "built in", message_clean(built_in, text, sizeof text));
    if (conf->foreign.set)
        printf("  %-13s %s='%s' is set, but this jemalloc reads %s\n", "not read",
               message_clean(conf->foreign.name, name, sizeof name),
               message_clean(conf->foreign.text, text, sizeof text), conf->variable.name);
}

static void print_state(const struct prof_state *state)
{
    char prefix[512], period[32];

    format_period(state->lg_sample, period, sizeof period);
    print_row("config.prof", state->compiled_in, "profiling is compiled in",
              "this jemalloc was built without profiling");
    print_row("opt.prof", state->enabled, "profiling was enabled at start",
              "profiling was not enabled at start");
    print_row("prof.active", state->enabled && state->active, "allocations are sampled now",
              "allocations are not sampled now");
    if (!state->enabled)
        return;
    print_row("thread init", state->thread_active_init,
              "new threads sample (prof.thread_active_init)",
              "new threads do not sample (prof.thread_active_init)");
    printf("  period        a sample every %s on average (prof.lg_sample %llu)\n", period,
           (unsigned long long)state->lg_sample);
    printf("  prefix        '%s' begins the names of dumps (opt.prof_prefix)\n",
           message_clean(state->prefix, prefix, sizeof prefix));
}

static void print_head(const struct status *status)
{
    const struct attachment *attachment = &status->attachment;
    const struct instance *instance = &attachment->instance;
    char name[64], path[512], version[128];

    printf("%s[%d] uses jemalloc%s%s\n",
           message_clean(attachment->target.stat.comm, name, sizeof name),
           (int)attachment->target.pid, status->called ? " " : "",
           message_clean(status->state.version, version, sizeof version));
    printf("  module        %s (%smallctl in %s%s)\n",
           message_clean(instance->module.path, path, sizeof path), instance->prefix,
           found_text(instance->found_by), instance->module.deleted ? ", file deleted" : "");
}

static void print_text(const struct status *status)
{
    const struct prof_state *state = &status->state;
    enum prof_verdict verdict = prof_judge(state);
    char next[2048];

    print_head(status);
    print_state(state);
    print_conf(&status->conf, state->built_in);
    if (state->active && state->enabled && activation_needed(state->version))
        printf(
            "  note          on this version threads that allocated while it was not active stay "
            "silent until: jeattach on %d\n",
            (int)status->attachment.target.pid);
    verdict_next(state, &status->conf, (int)status->attachment.target.pid, next, sizeof next);
    printf("verdict: %s\nnext: %s\n", verdict_text(verdict), next);
}

static const char *peek_text(bool known, bool value)
{
    return !known ? "?    not to be seen without a call" : value ? "yes" : "no";
}

static void print_peek(const struct status *status)
{
    const struct prof_peek *peek = &status->peek;
    int pid = (int)status->attachment.target.pid;
    struct prof_state state;
    char next[2048];

    print_head(status);
    printf("  opt.prof      %s\n", peek_text(peek->enabled_known, peek->enabled));
    printf("  prof.active   %s\n", peek_text(peek->active_known, peek->enabled && peek->active));
    print_conf(&status->conf, "");
    if (peek_state(peek, &state)) {
        verdict_next(&state, &status->conf, pid, next, sizeof next);
        printf("verdict: %s\nnext: %s\n", verdict_text(prof_judge(&state)), next);
    } else {
        printf("verdict: not known without a call\n"
               "next: jeattach status %d   (makes calls that only read)\n",
               pid);
    }
}

/* ---- the verb ---- */

static enum fault_code read_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct status *status = ctx;

    return prof_read(&attachment->injection, &attachment->instance, &status->state, fault);
}

static enum fault_code look(struct status *status, struct fault *fault)
{
    struct attachment *attachment = &status->attachment;

    conf_read(&status->conf, &attachment->instance, &attachment->modules, &attachment->target,
              &attachment->memory);
    status->called = !attachment->options->no_call;
    if (status->called)
        return attachment_hold(attachment, read_held, status, fault);
    prof_peek(&status->peek, &attachment->instance, &attachment->target, &attachment->memory);
    return FAULT_NONE;
}

static enum fault_code run(struct status *status, struct fault *fault)
{
    static const char *const calls[] = {
        "mallctl version, config.prof, opt.prof, prof.active, ... (read)",
    };
    struct attachment *attachment = &status->attachment;
    enum fault_code rc;

    if (attachment->options->dry_run)
        return attachment_describe(attachment, calls, ARRAY_LEN(calls), fault);
    rc = look(status, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (attachment->options->json)
        print_json(status);
    else if (status->called)
        print_text(status);
    else
        print_peek(status);
    return FAULT_NONE;
}

int verb_status(const struct options *options, pid_t pid)
{
    struct status status = {.called = false};
    struct fault fault;
    enum fault_code rc =
        attachment_open(&status.attachment, options, pid, "look at process", &fault);

    if (rc == FAULT_NONE)
        rc = run(&status, &fault);
    return attachment_finish(&status.attachment, rc, &fault);
}
