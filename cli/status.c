/* jeattach status */
#include "cli/attachment.h"
#include "cli/verbs.h"
#include "jemalloc/prof.h"

#include <stdio.h>

static const char *found_text(enum found_by found_by)
{
    switch (found_by) {
    case FOUND_DYNSYM:
        return ".dynsym";
    case FOUND_SYMTAB:
        return ".symtab";
    case FOUND_MINIDEBUG:
        return ".gnu_debugdata";
    case FOUND_DEBUGFILE:
        return "debug file";
    }
    return "unknown";
}

static void print_row(const char *name, bool value, const char *when_true, const char *when_false)
{
    printf("  %-13s %-4s %s\n", name, value ? "yes" : "no", value ? when_true : when_false);
}

static void print_json(const struct attachment *attachment, const struct prof_state *state)
{
    const struct instance *instance = &attachment->instance;
    struct json json;

    json_begin(&json, stdout);
    json_number(&json, "pid", (uint64_t)attachment->target.pid);
    json_text(&json, "name", attachment->target.stat.comm);
    json_text(&json, "module", instance->module.path);
    json_text(&json, "prefix", instance->prefix);
    json_text(&json, "found_by", found_text(instance->found_by));
    json_text(&json, "variable", attachment->variable);
    json_text(&json, "version", state->version);
    json_bool(&json, "config.prof", state->compiled_in);
    json_bool(&json, "config.stats", state->stats);
    json_bool(&json, "opt.prof", state->enabled);
    json_bool(&json, "prof.active", state->active);
    json_bool(&json, "prof.thread_active_init", state->thread_active_init);
    json_number(&json, "prof.lg_sample", state->lg_sample);
    json_text(&json, "opt.prof_prefix", state->prefix);
    attachment_json(attachment, &json);
    json_end(&json);
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

/* The verdict: which state this is, and the one next step. */
static void print_next(const struct attachment *attachment, const struct prof_state *state)
{
    int pid = (int)attachment->target.pid;

    if (!state->compiled_in)
        printf("next: none here: this jemalloc was built without profiling (--enable-prof)\n");
    else if (!state->enabled)
        printf("next: start it with %s=prof:true,prof_active:false; opt.prof cannot be changed "
               "in a running process\n",
               attachment->variable);
    else if (!state->active)
        printf("next: jeattach on %d\n", pid);
    else
        printf("next: jeattach dump %d\n", pid);
}

static void print_text(const struct attachment *attachment, const struct prof_state *state)
{
    const struct instance *instance = &attachment->instance;
    char name[64], path[512], version[128], prefix[512], period[32];

    format_period(state->lg_sample, period, sizeof period);
    printf("%s[%d] uses jemalloc %s\n",
           message_clean(attachment->target.stat.comm, name, sizeof name),
           (int)attachment->target.pid, message_clean(state->version, version, sizeof version));
    printf("  module        %s (%smallctl in %s%s)\n",
           message_clean(instance->module.path, path, sizeof path), instance->prefix,
           found_text(instance->found_by), instance->module.deleted ? ", file deleted" : "");
    print_row("config.prof", state->compiled_in, "profiling is compiled in",
              "this jemalloc was built without profiling");
    print_row("opt.prof", state->enabled, "profiling was enabled at start",
              "profiling was not enabled at start");
    print_row("prof.active", state->active, "allocations are sampled now",
              "allocations are not sampled now");
    if (state->enabled) {
        print_row("thread init", state->thread_active_init,
                  "new threads sample (prof.thread_active_init)",
                  "new threads do not sample (prof.thread_active_init)");
        printf("  period        a sample every %s on average (prof.lg_sample %llu)\n", period,
               (unsigned long long)state->lg_sample);
        printf("  prefix        '%s' begins the names of dumps (opt.prof_prefix)\n",
               message_clean(state->prefix, prefix, sizeof prefix));
    }
    print_next(attachment, state);
}

static enum fault_code read_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    return prof_read(&attachment->injection, &attachment->instance, ctx, fault);
}

static enum fault_code run(struct attachment *attachment, struct fault *fault)
{
    static const char *const calls[] = {
        "mallctl version, config.prof, opt.prof, prof.active, ... (read)",
    };
    struct prof_state state;
    enum fault_code rc;

    if (attachment->options->dry_run)
        return attachment_describe(attachment, calls, ARRAY_LEN(calls), fault);
    rc = attachment_hold(attachment, read_held, &state, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (attachment->options->json)
        print_json(attachment, &state);
    else
        print_text(attachment, &state);
    return FAULT_NONE;
}

int verb_status(const struct options *options, pid_t pid)
{
    struct attachment attachment;
    struct fault fault;
    enum fault_code rc = attachment_open(&attachment, options, pid, "look at process", &fault);

    if (rc == FAULT_NONE)
        rc = run(&attachment, &fault);
    return attachment_finish(&attachment, rc, &fault);
}
