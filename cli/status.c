/* jeattach status */
#include "cli/attachment.h"
#include "cli/facts_json.h"
#include "cli/verbs.h"
#include "jemalloc/facts.h"
#include "jemalloc/stripped.h"

#include <stdio.h>

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
        char version[VERSION_MAX] = "";
        struct json item;
        stripped_version(instance, &attachment->target, &attachment->memory, version,
                         sizeof version);
        json_list_item(json, &item);
        json_number(&item, "instance", i + 1);
        json_text(&item, "module", instance->module.path);
        json_text(&item, "prefix", instance->prefix);
        json_text(&item, "version", version);
        json_text(&item, "found_by", found_text(instance->found_by));
        json_bool(&item, "chosen", i == instances->chosen);
        json_end(&item);
    }
    json_list_end(json);
}

static void list_text(struct attachment *attachment)
{
    const struct instances *instances = &attachment->instances;
    char path[512], place[160], clean[VERSION_MAX];

    if (instances->count < 2)
        return;
    printf("  instances     %zu; --instance N chooses\n", instances->count);
    for (size_t i = 0; i < instances->count; i++) {
        const struct instance *instance = &instances->list[i];
        char version[VERSION_MAX] = "?";
        stripped_version(instance, &attachment->target, &attachment->memory, version,
                         sizeof version);
        printf("   %c%2zu %s, %s (%s)\n", i == instances->chosen ? '*' : ' ', i + 1,
               message_clean(version, clean, sizeof clean),
               message_clean(instance->module.path, path, sizeof path),
               found_where(instance, place, sizeof place));
    }
}

static void print_row(const char *name, enum fact value, const char *when_true,
                      const char *when_false)
{
    static const char *const words[] = {
        [FACT_UNKNOWN] = "?",
        [FACT_NO] = "no",
        [FACT_YES] = "yes",
    };
    const char *text = value == FACT_UNKNOWN ? "its memory does not tell"
                       : value == FACT_YES   ? when_true
                                             : when_false;

    printf("  %-13s %-4s %s\n", name, words[value], text);
}

static void print_json(struct attachment *attachment, const struct facts *facts)
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
    json_text(&json, "source", attachment->injection.report.tid ? "call" : "memory");
    json_text_or_null(&json, "version", facts->version);
    facts_json(&json, "config.prof", facts->compiled_in);
    facts_json(&json, "config.stats", facts->stats);
    facts_json(&json, "opt.prof", facts->enabled);
    facts_json(&json, "prof.active", facts->active);
    facts_json(&json, "prof.thread_active_init", facts->thread_active_init);
    if (facts->lg_sample_known)
        json_number(&json, "prof.lg_sample", facts->lg_sample);
    else
        json_null(&json, "prof.lg_sample");
    if (facts->prefix_known)
        json_text(&json, "opt.prof_prefix", facts->prefix);
    else
        json_null(&json, "opt.prof_prefix");
    list_json(attachment, &json);
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
static void print_next(const struct attachment *attachment, const struct facts *facts)
{
    int pid = (int)attachment->target.pid;

    if (!facts->compiled_in || !facts->enabled || (facts->enabled == FACT_YES && !facts->active))
        printf("next: jeattach status %d, without --no-call, to have it asked\n", pid);
    else if (facts->compiled_in == FACT_NO)
        printf("next: none here: this jemalloc was built without profiling (--enable-prof)\n");
    else if (facts->enabled == FACT_NO)
        printf("next: start it with %s=prof:true,prof_active:false; opt.prof cannot be changed "
               "in a running process\n",
               attachment->variable);
    else if (facts->active == FACT_NO)
        printf("next: jeattach on %d\n", pid);
    else
        printf("next: jeattach dump %d\n", pid);
}

static void print_text(struct attachment *attachment, const struct facts *facts)
{
    const struct instance *instance = &attachment->instance;
    char name[64], path[512], version[128], prefix[512], period[32], place[160];

    format_period(facts->lg_sample, period, sizeof period);
    printf("%s[%d] uses jemalloc %s\n",
           message_clean(attachment->target.stat.comm, name, sizeof name),
           (int)attachment->target.pid,
           facts->version[0] ? message_clean(facts->version, version, sizeof version) : "?");
    printf("  module        %s (%s%s)\n", message_clean(instance->module.path, path, sizeof path),
           found_where(instance, place, sizeof place),
           instance->module.deleted ? ", file deleted" : "");
    list_text(attachment);
    print_row("config.prof", facts->compiled_in, "profiling is compiled in",
              "this jemalloc was built without profiling");
    print_row("opt.prof", facts->enabled, "profiling was enabled at start",
              "profiling was not enabled at start");
    print_row("prof.active", facts->active, "allocations are sampled now",
              "allocations are not sampled now");
    if (facts->enabled == FACT_YES) {
        print_row("thread init", facts->thread_active_init,
                  "new threads sample (prof.thread_active_init)",
                  "new threads do not sample (prof.thread_active_init)");
        if (facts->lg_sample_known)
            printf("  period        a sample every %s on average (prof.lg_sample %llu)\n", period,
                   (unsigned long long)facts->lg_sample);
        if (facts->prefix_known)
            printf("  prefix        '%s' begins the names of dumps (opt.prof_prefix)\n",
                   message_clean(facts->prefix, prefix, sizeof prefix));
    }
    print_next(attachment, facts);
}

static enum fault_code read_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct prof_state state;
    enum fault_code rc = prof_read(&attachment->injection, &attachment->instance, &state, fault);

    if (rc == FAULT_NONE)
        facts_of_state(&state, ctx);
    return rc;
}

static void read_memory(struct attachment *attachment, struct facts *facts)
{
    struct fact_places places;

    facts_locate(&places, &attachment->instance, &attachment->modules, &attachment->target,
                 &attachment->memory);
    facts_read(&places, &attachment->memory, facts);
}

static enum fault_code dry_run(struct attachment *attachment, const struct facts *facts,
                               struct fault *fault)
{
    static const char *const calls[] = {
        "mallctl version, config.prof, opt.prof, prof.active, ... (read)",
    };
    enum fault_code rc;

    if (facts_complete(facts)) {
        printf("calls      none: the memory of the process tells it all\n");
        return FAULT_NONE;
    }
    rc = attachment_prepare(attachment, fault);
    return rc == FAULT_NONE ? attachment_describe(attachment, calls, ARRAY_LEN(calls), fault) : rc;
}

/* What was read is this process's only if it is still there. */
static enum fault_code complete(struct attachment *attachment, struct facts *facts,
                                struct fault *fault)
{
    enum fault_code rc;

    if (attachment->options->no_call || facts_complete(facts))
        return target_check(&attachment->target, fault);
    rc = attachment_prepare(attachment, fault);
    return rc == FAULT_NONE ? attachment_hold(attachment, read_held, facts, fault) : rc;
}

static enum fault_code run(struct attachment *attachment, struct fault *fault)
{
    struct facts facts;
    enum fault_code rc;

    read_memory(attachment, &facts);
    if (attachment->options->dry_run)
        return dry_run(attachment, &facts, fault);
    rc = complete(attachment, &facts, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (attachment->options->json)
        print_json(attachment, &facts);
    else
        print_text(attachment, &facts);
    return FAULT_NONE;
}

int verb_status(const struct options *options, pid_t pid)
{
    struct attachment attachment;
    struct fault fault;
    enum fault_code rc = attachment_look(&attachment, options, pid, "look at process", &fault);

    if (rc == FAULT_NONE)
        rc = run(&attachment, &fault);
    return attachment_finish(&attachment, rc, &fault);
}
