/* jeattach mallctl */
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/value.h"
#include "cli/verbs/verbs.h"
#include "jemalloc/names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LIST_MAX = 240, VALUE_TEXT = 1200 };

struct mallctl {
    const struct options *options;
    struct build build;
    struct access list[LIST_MAX];
    size_t count;
    size_t left_out; /* names beyond LIST_MAX */
};

/* ---- refusals ---- */

static const char *const refusals[] = {
    [NAME_READ_ONLY] = "can only be read",
    [NAME_WRITE_ONLY] = "can only be written: give it a value with =",
    [NAME_TAKES_NO_VALUE] = "takes no value",
    [NAME_REFUSE_INDEX] =
        "has no such index: jemalloc would read beyond its array of arenas and might crash",
    [NAME_REFUSE_CLASS] =
        "has no such index: this jemalloc has fewer size classes, and might read beyond its array",
    [NAME_REFUSE_PROF_THREAD] =
        "would crash the process, now or when the thread ends: up to jemalloc 5.2.1 it uses locks "
        "that were never created when opt.prof is false",
    [NAME_REFUSE_STATS] =
        "would crash the process: this jemalloc was built without statistics (config.stats is "
        "false)",
    [NAME_REFUSE_NO_TCACHE] =
        "would crash the process if the stopped thread has no thread cache (opt.tcache is false)",
    [NAME_REFUSE_ANY_THREAD] =
        "would act on the one thread that is stopped for the call, not on the process",
    [NAME_REFUSE_FREES] = "would free memory that is in use",
    [NAME_REFUSE_THREADS] =
        "would create or end jemalloc's own threads in the middle of the call; set it at start",
    [NAME_REFUSE_HOOK] =
        "would install a function of the program, and jeattach has none to install",
    [NAME_REFUSE_STRUCT] = "has a structure of jemalloc as its value, not a number or text",
    [NAME_REFUSE_CREATES] = "would create something that stays, and that nobody uses",
    [NAME_REFUSE_TCACHE] = "would end or empty a cache that a thread may be using",
    [NAME_REFUSE_DUMP] = "cannot be called this way: use jeattach dump",
    [NAME_REFUSE_FILES] =
        "would make jemalloc write files inside malloc, and a file that is too large would kill "
        "the process: use jeattach record --on-new-peak",
    [NAME_REFUSE_LOG] = "would keep a record of every sample in memory and write a file at exit",
    [NAME_REFUSE_EXPERIMENTAL] = "differs from build to build",
};

/* "from 5.3.0 on", "up to 5.2.1" */
static const char *range_text(const struct ctl_name *name, char *out, size_t size)
{
    unsigned first = name->first, last = name->last;

    if (last % 10000 == 9999) /* in the table: any 4.x */
        snprintf(out, size, "%u.%u to %u.x", first / 10000, first / 100 % 100, last / 10000);
    else if (last % 100 == 99)
        snprintf(out, size, "%u.%u to %u.%u", first / 10000, first / 100 % 100, last / 10000,
                 last / 100 % 100);
    else if (last)
        snprintf(out, size, "%u.%u.%u to %u.%u.%u", first / 10000, first / 100 % 100, first % 100,
                 last / 10000, last / 100 % 100, last % 100);
    else
        snprintf(out, size, "%u.%u.%u on", first / 10000, first / 100 % 100, first % 100);
    return out;
}

static fault_code refuse(const struct mallctl *mallctl, const struct access *access,
                         enum name_refusal refusal, struct fault *fault)
{
    const struct build *build = &mallctl->build;
    char range[64];

    switch (refusal) {
    case NAME_ALLOWED:
        return FAULT_NONE;
    case NAME_NEEDS_PROF_COMPILED:
    case NAME_NEEDS_PROF:
        return build_can_profile(build, fault);
    case NAME_OTHER_VERSION:
        return fault_set(fault, FAULT_NAME_USAGE, 0, "mallctl",
                         "%s is a name of jemalloc from %s; this is %s", access->name,
                         range_text(access->entry, range, sizeof range), build->text);
    case NAME_READ_ONLY:
    case NAME_WRITE_ONLY:
    case NAME_TAKES_NO_VALUE:
        return fault_set(fault, FAULT_NAME_USAGE, 0, "mallctl", "%s %s", access->name,
                         refusals[refusal]);
    default:
        return fault_set(fault, FAULT_NAME_REFUSED, 0, "mallctl", "%s %s", access->name,
                         refusals[refusal]);
    }
}

static fault_code refuse_unknown(const struct access *access, struct fault *fault)
{
    char near[CTL_NAME_MAX], clean[CTL_NAME_MAX];

    message_clean(access->name, clean, sizeof clean);
    if (names_begin(access->name))
        return fault_set(fault, FAULT_NAME_USAGE, 0, "mallctl",
                         "%s is only a prefix of names: use --list '%s.*'", clean, clean);
    if (names_suggest(access->name, (struct version){0}, near))
        return fault_set(fault, FAULT_NAME_USAGE, 0, "mallctl",
                         "jemalloc has no '%s'; did you mean %s?", clean, near);
    return fault_set(fault, FAULT_NAME_USAGE, 0, "mallctl", "jemalloc has no '%s'", clean);
}

/* ---- before the target is touched ---- */

static fault_code take_mallctl_value(struct access *access, const char *text, struct fault *fault)
{
    char clean[64];

    if (access->type == CTL_STRING) {
        access->text = text;
        if (strlen(text) < ACCESS_TEXT_MAX)
            return FAULT_NONE;
        return fault_set(fault, FAULT_NAME_USAGE, 0, "mallctl", "the value of %s is too long",
                         access->name);
    }
    if (value_parse(access->type, text, &access->value) &&
        !(access->entry->traits & NAME_LG && access->value > 63) &&
        !(access->entry->traits & NAME_NOT_MAX && access->value == UINT64_MAX))
        return FAULT_NONE;
    return fault_set(fault, FAULT_NAME_USAGE, 0, "mallctl", "'%s' is not a value of %s: must be %s",
                     message_clean(text, clean, sizeof clean), access->name,
                     access->entry->traits & NAME_LG ? "the logarithm of a size, 0 to 63"
                                                     : value_wanted(access->type));
}

/* Checks a word without the process: assumes the newest version, and that it can profile. */
static fault_code take_word(struct mallctl *mallctl, const char *word, struct fault *fault)
{
    static const struct build best = {
        .config_prof = FACT_YES, .opt_prof = FACT_YES, .config_stats = FACT_YES};
    struct access *access = &mallctl->list[mallctl->count++];
    const char *value = strchr(word, '=');
    size_t n = value ? (size_t)(value - word) : strlen(word);
    fault_code rc;

    if (n >= sizeof access->name)
        n = sizeof access->name - 1;
    memcpy(access->name, word, n);
    access->entry = names_find(access->name, best.version);
    if (!access->entry)
        return refuse_unknown(access, fault);
    access->use = name_use(access->entry, value != NULL);
    access->type = access->entry->type;
    rc =
        refuse(mallctl, access, name_judge(access->entry, access->name, access->use, &best), fault);
    if (rc == FAULT_NONE && value)
        rc = take_mallctl_value(access, value + 1, fault);
    if (rc == FAULT_NONE && access->value && access->entry->traits & NAME_ONLY_OFF)
        rc = refuse(mallctl, access, NAME_REFUSE_FILES, fault);
    return rc;
}

/* ---- while a thread is stopped ---- */

static void fill_list(struct mallctl *mallctl)
{
    const struct options *options = mallctl->options;

    for (size_t i = 0; i < ctl_names_count; i++) {
        const struct ctl_name *entry = &ctl_names[i];
        char name[CTL_NAME_MAX];
        bool wanted = options->name_count == 0 && entry->traits & NAME_LISTED &&
                      name_covered(entry, "*", name);
        for (size_t k = 0; k < options->name_count && !wanted; k++)
            wanted = name_covered(entry, options->names[k], name);
        if (!wanted || name_judge(entry, name, NAME_READ, &mallctl->build) != NAME_ALLOWED)
            continue;
        if (mallctl->count == LIST_MAX) {
            mallctl->left_out++;
            continue;
        }
        struct access *access = &mallctl->list[mallctl->count++];
        memcpy(access->name, name, sizeof access->name);
        access->entry = entry;
        access->type = entry->type;
        access->use = NAME_READ;
    }
}

static fault_code mallctl_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct mallctl *mallctl = ctx;
    const struct build *build = &mallctl->build;
    fault_code rc =
        build_read(&attachment->caller.injection, &attachment->instance, &mallctl->build, fault);
    int scope;

    if (rc == FAULT_NONE && mallctl->options->list)
        fill_list(mallctl);
    for (size_t i = 0; i < mallctl->count && rc == FAULT_NONE; i++) {
        struct access *access = &mallctl->list[i];
        /* The entry of this version, whose type may differ: opt.thp was a bool before 5.1. */
        access->entry = names_find(access->name, build->version);
        access->type = access->entry->type;
        rc = refuse(mallctl, access, name_judge(access->entry, access->name, access->use, build),
                    fault);
    }
    for (size_t i = 0; i < mallctl->count && rc == FAULT_NONE; i++) {
        const struct access *access = &mallctl->list[i];
        if (name_hooks(access->entry, access->name, access->use, &scope))
            rc = hooks_check(&attachment->caller.injection, &attachment->instance, scope,
                             &attachment->caller.hooks, NULL, fault);
    }
    if (rc == FAULT_NONE)
        rc = access_run(&attachment->caller.injection, &attachment->instance, mallctl->list,
                        mallctl->count, fault);
    return rc;
}

/* ---- afterwards ---- */

static void print_mallctl_text(const struct job *job, const struct access *access)
{
    const struct attachment *attachment = job->attachment;
    char old[VALUE_TEXT], now[VALUE_TEXT], clean[PROCESS_TEXT];

    if (job->options->pid_count > 1)
        printf("%s ", job_process(job, clean));
    printf("%s", access->name);
    value_format(access->type, access->now_value, access->now_text, now, sizeof now);
    value_format(access->type, access->old_value, access->old_text, old, sizeof old);
    if (access->use == NAME_ACT)
        printf(": done");
    else if (access->use == NAME_WRITE && !access->has_now)
        printf(": written; it cannot be read back");
    else if (access->use == NAME_WRITE && strcmp(old, now) == 0)
        printf(" = %s (%s)", now, access->entry->traits & NAME_ADJUSTS ? "written" : "unchanged");
    else if (access->use == NAME_WRITE)
        printf(" = %s -> %s", old, now);
    else
        printf(" = %s", now);
    if (access->entry->traits & NAME_OF_THREAD)
        printf("   (of thread %d, which was stopped for the call)",
               (int)attachment->caller.injection.summary.tid);
    printf("\n");
}

static void json_value(struct json *json, const struct access *access, uint64_t value,
                       const char *text)
{
    char formatted[32];

    if (access->type == CTL_BOOL)
        json_bool(json, access->name, value != 0);
    else if (access->type == CTL_SSIZE || access->type == CTL_INT64)
        json_signed(json, access->name, (int64_t)value);
    else if (access->type == CTL_FIXED || access->type == CTL_POINTER)
        json_text(json, access->name,
                  value_format(access->type, value, NULL, formatted, sizeof formatted));
    else if (access->type != CTL_STRING)
        json_number(json, access->name, value);
    else if (text)
        json_text(json, access->name, text);
    else
        json_null(json, access->name);
}

/* "values": all that were read; "old": the replaced values; "done": what was written or triggered.
 */
static void print_mallctl_json(const struct attachment *attachment, const struct mallctl *mallctl)
{
    const struct access *access = mallctl->list, *end = access + mallctl->count;
    struct json json;

    attachment_json_begin(attachment, &json);
    json_text(&json, "version", mallctl->build.text);
    json_object_begin(&json, "values");
    for (; access < end; access++)
        if (access->has_now)
            json_value(&json, access, access->now_value, access->now_text);
    json_object_end(&json);
    json_object_begin(&json, "old");
    for (access = mallctl->list; access < end; access++)
        if (access->has_old)
            json_value(&json, access, access->old_value, access->old_text);
    json_object_end(&json);
    json_object_begin(&json, "done");
    for (access = mallctl->list; access < end; access++)
        if (access->rc == 0 && access->use != NAME_READ)
            json_bool(&json, access->name, access_kept(access));
    json_object_end(&json);
    attachment_json(attachment, &json);
    json_end(&json);
}

/* Explains mallctl's return code, an errno value, for this name (src/ctl.c). */
static const char *reason(const struct mallctl *mallctl, const struct access *access)
{
    bool of_prof = strncmp(access->name, "prof.", 5) == 0 ||
                   strncmp(access->name, "opt.prof", 8) == 0 ||
                   strncmp(access->name, "opt.lg_prof", 11) == 0;

    switch (access->rc) {
    case ENOENT:
        if (of_prof && mallctl->build.config_prof != FACT_YES)
            return "this jemalloc was built without profiling (config.prof is false)";
        if (strncmp(access->name, "stats.", 6) == 0 && mallctl->build.config_stats != FACT_YES)
            return "this jemalloc was built without statistics (config.stats is false)";
        if (strstr(access->entry->pattern, "<i>"))
            return "there is no such index in this process, or this build does not have the name";
        return "this build of jemalloc does not have it, or not in this process's state";
    case EPERM:
        return "jemalloc does not allow that";
    case EINVAL:
        return access->use == NAME_WRITE ? "jemalloc does not accept that value"
                                         : "it has another type in this build";
    case EAGAIN:
        return "jemalloc is out of memory, or the stopped thread cannot profile";
    case EFAULT:
        return "jemalloc could not do it: there is no such arena, or the value is out of range";
    default:
        return "jemalloc refused it with an unknown error code";
    }
}

static fault_code perform_mallctl(struct job *job, void *ctx, struct fault *fault)
{
    struct mallctl *mallctl = ctx;
    const struct options *options = mallctl->options;
    char now[VALUE_TEXT];
    fault_code rc = FAULT_NONE;

    for (size_t i = 0; i < options->name_count && !options->list && rc == FAULT_NONE; i++)
        rc = take_word(mallctl, options->names[i], fault);
    if (rc == FAULT_NONE)
        rc = caller_hold(job->attachment, mallctl_held, mallctl, fault);
    if (rc != FAULT_NONE)
        return rc;

    if (options->json)
        print_mallctl_json(job->attachment, mallctl);
    for (size_t i = 0; i < mallctl->count && !options->json; i++)
        if (mallctl->list[i].rc == 0)
            print_mallctl_text(job, &mallctl->list[i]);
    if (options->list && !mallctl->count)
        message("no name matches: the names begin with opt., config., stats., arenas., ...");
    if (mallctl->left_out) /* a longer list would stop the thread for longer */
        message("%zu more names match: use a narrower pattern", mallctl->left_out);
    for (size_t i = 0; i < mallctl->count; i++)
        if (mallctl->list[i].use == NAME_WRITE &&
            strcmp(mallctl->list[i].name, "prof.active") == 0 &&
            version_within(mallctl->build.version, VERSION_NUMBER(5, 2, 0),
                           VERSION_NUMBER(5, 2, 1)))
            message("jemalloc 5.2 does not sample in threads that allocated while prof.active was "
                    "false: use jeattach on instead");

    /* The first failure of the requested names; a list leaves out the names that fail. */
    for (size_t i = 0; i < mallctl->count && !options->list; i++) {
        const struct access *access = &mallctl->list[i];
        if (access->rc != 0)
            return fault_set(fault, FAULT_NAME_REFUSED, access->rc, "mallctl", "%s: %s",
                             access->name, reason(mallctl, access));
        if (!access_kept(access))
            return fault_set(
                fault, FAULT_NAME_REFUSED, 0, "mallctl", "%s was written, but reads back %.100s",
                access->name,
                value_format(access->type, access->now_value, access->now_text, now, sizeof now));
    }
    return FAULT_NONE;
}

static int mallctl_main(const struct options *options, pid_t pid)
{
    struct mallctl mallctl = {.options = options};
    int code =
        job_run(options, pid, JOB_AS_ASKED, "use mallctl in process", perform_mallctl, &mallctl);

    access_free(mallctl.list, mallctl.count);
    return code;
}

const struct verb verb_mallctl = {
    .name = "mallctl",
    .summary = "read or write any setting or counter of jemalloc, by its name",
    .synopses = {"[options] PROCESS NAME[=VALUE]...", "[options] PROCESS --list [PATTERN]..."},
    .examples = {{"jeattach mallctl 4242 opt.lg_prof_sample", "read a setting"},
                 {"jeattach mallctl 4242 arena.0.dirty_decay_ms=5000", "change one"},
                 {"jeattach mallctl 4242 --list 'opt.*'", "names and values"}},
    .takes = TAKES_NAMES | TAKES_HOOKS,
    .intro = "Reads, writes or triggers up to 20 names of jemalloc in one stop; a name that\n"
             "was written is read back. Statistics (stats.*) are updated first. All names are\n"
             "checked before the first is used: a name that would crash the process, free\n"
             "memory in use or act on an arbitrary thread is refused, with the reason.\n"
             "\n"
             "  VALUE      true or false; a number; a size, such as 64K, 16M, 1G, 1T; text\n"
             "\n"
             "prof.reset drops all samples taken so far; prof.reset=19 also changes the\n"
             "sampling period, to 2^19 bytes.\n"
             "\n"
             "Names of thread.* are those of the one thread that is stopped (see --thread).\n",
    .run = mallctl_main,
};
