/* jeattach recent */
#include "run/recent.h"
#include "base/units.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/recent_view.h"
#include "cli/presentation.h"
#include "cli/verbs/verbs.h"
#include "cli/words.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_NS (30ull * 1000000000)

enum { ROWS_DEFAULT = 10 };

struct recent_verb {
    struct attachment attachment;
    struct job job;
    struct presentation presentation;
    struct output output;
    const struct options *options;
    enum recent_order order;
    struct recent recent;
};

/* ---- what is printed ---- */

static void print_recent_json(const struct recent_verb *verb, const struct recent_view *view)
{
    const struct attachment *attachment = &verb->attachment;
    struct json json;

    attachment_json_begin(attachment, &json);
    sampling_json(&verb->recent.sampling, &json);
    recent_json(view, &json);
    json_text_or_null(&json, "path", verb->options->output);
    cut_short_json(verb->recent.sampling.cut_short_ns, &json);
    json_number(&json, "holds", attachment->holds);
    json_number(&json, "longest_held_ns", attachment->longest_ns);
    attachment_json(attachment, &json);
    json_end(&json);
}

static bool print_recent_table(const struct recent_verb *verb, const struct recent_view *view)
{
    const struct target *target = &verb->attachment.target;
    char clean[64], time[UNITS_TEXT];
    bool good;

    printf("%s[%d], sampled for %s: ", message_clean(target->stat.comm, clean, sizeof clean),
           (int)target->pid, units_duration(sampling_ns(&verb->recent.sampling), time));
    good = recent_print(view, stdout);
    fflush(stdout); /* before the messages */
    return good;
}

static bool print_list(const struct samples *samples, const struct display *display, void *ctx)
{
    const struct recent_verb *verb = ctx;
    struct recent_sites sites;
    const struct recent_view view = {.recent = &verb->recent,
                                     .sites = &sites,
                                     .samples = samples,
                                     .order = verb->order,
                                     .rows =
                                         verb->options->report.rows ? display->rows : ROWS_DEFAULT};
    bool good = recent_sites_make(&sites, &verb->recent, samples);

    if (good && verb->options->json)
        print_recent_json(verb, &view);
    else if (good)
        good = print_recent_table(verb, &view);
    recent_sites_free(&sites);
    return good;
}

/* ---- the verb ---- */

static const char *format_recent_farewell(void *ctx, pid_t pid)
{
    static char farewell[240];

    (void)ctx;
    snprintf(farewell, sizeof farewell,
             "\njeattach: exited at once: prof.active and the list may not be restored; to check: "
             "jeattach status %d; to restore: jeattach off %d; jeattach mallctl %d "
             "experimental.prof_recent.alloc_max=0\n",
             (int)pid, (int)pid, (int)pid);
    return farewell;
}

static fault_code perform_recent(struct recent_verb *verb, struct fault *fault)
{
    const struct options *options = verb->options;
    fault_code rc = FAULT_NONE;

    if (options->dry_run)
        return job_describe(&verb->job, verb_recent.calls, fault);
    if (options->output)
        rc =
            output_open_named(&verb->output, options->output, options->force, options->mode, fault);
    if (rc == FAULT_NONE)
        rc = recent_run(&verb->recent, &verb->attachment, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (!options_to_stdout(options))
        verb->presentation.also = print_list;
    verb->presentation.also_ctx = verb;
    verb->presentation.events = &verb->job.events;
    verb->presentation.cut_short = verb->recent.sampling.cut_short_ns;
    return capture_write(&verb->attachment, &verb->presentation, &verb->recent.capture,
                         options->output ? &verb->output : NULL, fault);
}

static bool set_order(struct recent_verb *verb, const char *name)
{
    static const char *const names[] = {
        [RECENT_BY_AGE] = "newest", [RECENT_BY_SIZE] = "size", [RECENT_BY_LIFETIME] = "lifetime"};

    for (enum recent_order i = RECENT_BY_AGE; i < ARRAY_LEN(names); i++)
        if (!name || strcmp(names[i], name) == 0) {
            verb->order = i;
            return true;
        }
    return words_refuse("order", name, names, ARRAY_LEN(names));
}

static bool prepare_recent(struct recent_verb *verb, const struct options *options)
{
    const struct recent_request request = {
        .duration_ns = options->duration_ns ? options->duration_ns : DEFAULT_NS,
        .count = options->last ? options->last : RECENT_DEFAULT,
        .impatient = options_to_stdout(options)};

    verb->options = options;
    recent_init(&verb->recent, &request);
    if (request.count > RECENT_MAX) {
        message("--last must be a number from 1 to %d", RECENT_MAX);
        return false;
    }
    return presentation_init(&verb->presentation, options,
                             options->output ? FORMAT_RAW : FORMAT_TEXT) &&
           set_order(verb, options->report.sort);
}

static int recent_main(const struct options *options, pid_t pid)
{
    struct recent_verb verb = {.output.fd = -1};
    struct fault fault;
    fault_code rc;
    int code = EXIT_USAGE;

    if (prepare_recent(&verb, options)) {
        rc = job_open(&verb.job, &verb.attachment, options, pid,
                      "list the recent allocations of process", &fault);
        verb.job.events.farewell = format_recent_farewell;
        if (rc == FAULT_NONE)
            rc = perform_recent(&verb, &fault);
        if (rc == FAULT_NONE && verb.recent.ended.code != FAULT_NONE) {
            fault = verb.recent.ended;
            rc = fault.code;
        }
        code = job_finish_sampling(&verb.job, &verb.recent.sampling, rc, &fault);
    }
    output_close(&verb.output);
    presentation_free(&verb.presentation);
    recent_free(&verb.recent);
    return code;
}

const struct verb verb_recent = {
    .name = "recent",
    .summary = "list the last sampled allocations, with their age and lifetime",
    .synopses = {"[options] PID..."},
    .takes = TAKES_OUTPUT | TAKES_FORMAT | TAKES_DURATION | TAKES_RECENT | TAKES_HOOKS,
    .intro = "Switches jemalloc's list of recent allocations and profiling on, waits, prints\n"
             "the list, and restores both. Shows by site how many samples are still alive and\n"
             "the median lifetime of the others; then single allocations: age, lifetime,\n"
             "size, thread, and the innermost call. Only allocations of the sampling time are\n"
             "listed. Requires jemalloc 5.3.0 or later. Makes a thread call jemalloc: at the\n"
             "start, at the end, and between them for a hundredth of the time at most, so that\n"
             "a process that ends leaves its last list: exit code 3.\n",
    .notes = "Times have the resolution of the kernel's coarse clock, 1 to 10 ms, unless the\n"
             "process was started with prof_time_resolution:high. A lifetime longer than the\n"
             "sampling is not seen: the object is alive.\n"
             "\n"
             "Ctrl-C (or SIGTERM) ends it early, as it ends record: exit code 130. If jeattach\n"
             "is ended by SIGKILL, profiling and the list stay on; to switch them off:\n"
             "jeattach off PID; jeattach mallctl PID experimental.prof_recent.alloc_max=0\n",
    .options =
        {
            {"output", NULL,
             "also write the samples to this file, as a profile: in use are those that are alive. "
             "- writes it to stdout instead"},
            {"format", NULL,
             "format of that profile: raw, symbolized, text, tree, flame, pprof, folded, dot, svg, "
             "json"},
            {"rows", NULL, "show at most N rows of each table (default 10); 0: all"},
            {"sort", NULL,
             "show first: newest (default), size: the largest, lifetime: the longest-lived"},
            {"timeout", NULL, "time limit for each stop (default 30s)"},
        },
    .calls =
        {
            "mallctl version, config.prof, opt.prof, prof.active, ... (read)",
            "mallctl arenas.narenas, opt.narenas, arena.<each>.extent_hooks (read)",
            "mallctl experimental.prof_recent.alloc_max=N (write, then read back)",
            "mallctl prof.active=true (write, then read back), unless it is true",
            "while it waits: mallctl experimental.prof_recent.alloc_dump, now and then;",
            "then in one stop:",
            "mallctl prof.active (read; the former value written and read back)",
            "mallctl experimental.prof_recent.alloc_dump",
            "mallctl experimental.prof_recent.alloc_max (the former value, then read back)",
        },
    .run = recent_main,
};
