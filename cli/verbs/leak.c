/* jeattach leak */
#include "run/leak/leak.h"
#include "cli/job.h"
#include "cli/notes.h"
#include "cli/output/attachment_json.h"
#include "cli/output/leak_view.h"
#include "cli/presentation.h"
#include "cli/verbs/verbs.h"
#include "jemalloc/faults.h"
#include "run/access.h"
#include "run/account.h"
#include "run/interrupt.h"

#include <math.h>
#include <stdio.h>

#define DEFAULT_NS (60ull * 1000000000)

enum { ROWS_DEFAULT = 10 };

struct leak_verb {
    struct attachment attachment;
    struct job job;
    struct presentation presentation;
    struct output output;
    const struct options *options;
    struct leak leak;
    bool profiles;           /* the attachment is open for profiles */
    struct fault no_samples; /* why not, although they were wanted */
    struct own_limit own_limit;
    struct limit_use use;
    bool machine;
    bool wasteful; /* frag has something to say of it */
};

/* ---- the result ---- */

/* What profiling has to say. */
static void json_samples(const struct leak_verb *verb, const struct leak_view *view,
                         struct json *json)
{
    const struct leak *leak = &verb->leak;
    const struct growth *growth = view->growth;

    sampling_json(&leak->sampling, json);
    JSON_MEMBERS(json, CUT_SHORT(leak->sampling.cut_short_ns),
                 NUMBER("covered_percent", leak_covered_percent(leak)),
                 NUMBER("sampled_bytes", leak->sampled),
                 NUMBER("allocated_ns", leak->after.at_ns - leak->before.at_ns),
                 SIGNED("grown", growth->grown), SIGNED("shrunk", growth->shrunk),
                 ROUNDED("error", trunc(growth->error)), NUMBER("rss_before", leak->before.rss),
                 NUMBER("rss_after", leak->after.rss));
    json_list_begin(json, "rows");
    for (size_t i = 0; i < growth_shown(growth, view->display); i++) {
        const struct growth_row *row = &growth->rows[i];
        json_item_begin(json);
        JSON_MEMBERS(
            json, SIGNED("bytes", row->bytes), SIGNED("objects", row->objects),
            ROUNDED("error", trunc(row->error)), ROUNDED("bytes_per_s", trunc(row->bytes_per_s)),
            /* outwards: bytes lies between them */
            ROUNDED("low", floor(row->trend.low)), ROUNDED("high", ceil(row->trend.high)),
            TEXT("verdict", trend_verdict_name(row->trend.verdict)),
            FLAG("within_error", row->within),
            ROUNDED_IF(row->trend.verdict == TREND_STOPPED, "stopped_s", row->trend.stopped));
        stack_json(json, "stack", view->samples, &view->samples->list[row->sample]);
        json_item_end(json);
    }
    json_list_end(json);
    JSON_MEMBERS(json, NUMBER("holds", verb->attachment.caller.holds),
                 NUMBER("longest_held_ns", verb->attachment.caller.longest_ns));
    way_json(&verb->attachment, access_calls(&verb->attachment), json);
    attachment_json(&verb->attachment, json);
}

static void print_leak_json(const struct leak_verb *verb, const struct leak_view *view)
{
    struct json json;

    attachment_json_begin(&verb->attachment, &json);
    leak_json(view, &json);
    json_text_or_null(&json, "path", verb->options->output);
    if (view->faults) {
        json_object_begin(&json, "faults");
        grow_json(view->faults, &json);
        json_object_end(&json);
    } else {
        json_null(&json, "faults");
    }
    if (view->samples)
        json_samples(verb, view, &json);
    json_end(&json);
}

/* samples, of the profiles, and touchers, of the pages, are NULL where there are none. */
static bool print_leak(struct leak_verb *verb, const struct samples *samples,
                       const struct samples *touchers)
{
    const struct leak *leak = &verb->leak;
    const struct profile_options *report = &verb->options->report;
    struct display *display = &verb->presentation.display;
    struct parts parts = {.count = 0};
    struct growth growth = {.count = 0};
    const struct grow_view faults = {.grow = &leak->grow,
                                     .samples = touchers,
                                     .target = &verb->attachment.target,
                                     .depth = display->depth,
                                     .colors = isatty(STDOUT_FILENO) != 0,
                                     .verbose = verb->options->verbose};
    struct leak_view view = {.attachment = &verb->attachment,
                             .leak = leak,
                             .verdict = leak->judged ? &leak->verdict : NULL,
                             .parts = &parts,
                             .samples = samples,
                             .growth = &growth,
                             .own_limit = verb->own_limit,
                             .use = verb->use,
                             .machine = verb->machine,
                             .wasteful = verb->wasteful,
                             .faults = touchers ? &faults : NULL,
                             .display = display,
                             .rows = report->rows ? display->rows : ROWS_DEFAULT,
                             .rows_given = report->rows != NULL,
                             .verbose = verb->options->verbose};
    const bool good =
        !samples || growth_make(&growth, samples, (double)sampling_ns(&leak->sampling) / 1e9);

    display->colors = faults.colors;
    if (samples && good)
        growth_answer_choose(&view.answer, &growth, samples);
    if (view.verdict)
        parts_of_objects(&parts, leak, view.verdict, samples);
    if (touchers)
        parts_of_memory(&parts, leak, view.verdict);
    if (good && verb->options->json)
        print_leak_json(verb, &view);
    else if (good)
        leak_print(&view, stdout);
    fflush(stdout); /* before the messages */
    growth_free(&growth);
    return good;
}

/* Shows the growth by samples and by page faults, and writes the first of these that there is. */
static fault_code show_leak(struct leak_verb *verb, struct fault *fault)
{
    struct attachment *attachment = &verb->attachment;
    struct leak *leak = &verb->leak;
    struct capture *capture = &leak->grow.capture;
    const struct present_source pages = {.text = &capture->text, .time_ns = capture->time_ns};
    struct presentation *presentation = &verb->presentation, plain;
    struct presented samples = {.count = 0}, faults = {.count = 0};
    struct output *output = verb->options->output ? &verb->output : NULL;
    const bool shown = !options_to_stdout(verb->options);
    struct fault unnamed;
    fault_code rc;
    bool touched;

    if (leak->profiled) {
        presentation->cut_short = leak->sampling.cut_short_ns;
        rc = leak_read(leak, attachment, presentation, &samples, fault);
        /* The file comes first: reading names and the screen may take the time for writing. */
        if (rc == FAULT_NONE)
            rc = present_write(&samples, output, fault);
        plain = *presentation;
        plain.format = FORMAT_TEXT;
        touched = rc == FAULT_NONE && shown && leak->grows &&
                  capture_read(attachment, &plain, &pages, 1, &faults, &unnamed) == FAULT_NONE;
    } else {
        leak_judge(leak);
        presentation->display.touched = true;
        if (output && presentation->format == FORMAT_RAW) { /* the table needs names, it does not */
            rc = capture_write(attachment, presentation, capture, output, fault);
            if (rc != FAULT_NONE || !shown)
                return rc;
            presentation->format = FORMAT_TEXT;
            output = NULL;
        }
        rc = capture_read(attachment, presentation, &pages, 1, &faults, fault);
        touched = rc == FAULT_NONE;
        if (touched)
            rc = present_write(&faults, output, fault);
    }
    if ((rc == FAULT_NONE || rc == FAULT_INTERRUPTED) && shown &&
        !print_leak(verb, leak->profiled ? &samples.samples : NULL,
                    touched ? &faults.samples : NULL))
        rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "show", "the growth");
    if (rc == FAULT_NONE)
        present_notes(leak->profiled ? &samples : &faults);
    present_free(&faults);
    present_free(&samples);
    return rc;
}

/* ---- the verb ---- */

/* Without profiling there is still an answer, unless samples are asked for. */
static bool wants_samples(const struct options *options)
{
    return options->by_samples || options->settle_ns;
}

/* Whether frag would name waste. */
static bool is_wasteful(struct attachment *attachment)
{
    struct account account;
    struct account_sum sum;
    struct fault ignored;

    if (account_read_records(&account, attachment, &ignored) != FAULT_NONE)
        return false;
    sum = account_sum_up(&account);
    return account_is_wasteful(&sum);
}

/* The Ctrl-C that has ended the watch does not end this. */
static void look_at_end(struct leak_verb *verb)
{
    struct attachment *attachment = &verb->attachment;
    struct leak *leak = &verb->leak;
    struct fault ignored;

    if (leak->ended.code != FAULT_NONE || !looks_counted(&leak->looks))
        return;
    if (attachment_renew(attachment, interrupt_again_flag(), &ignored) == FAULT_NONE) {
        grown_classes_find(leak->grown, &leak->looks, &leak->grow.pages, attachment);
        verb->wasteful =
            !verb->options->json && leak->grows &&
            (parts_have_free_memory(leak) || looks_judge_rss(&leak->looks).kind != VERDICT_GROWS) &&
            is_wasteful(attachment);
    }
    attachment_rest(attachment);
}

static void read_limit(struct leak_verb *verb)
{
    const struct target *target = &verb->attachment.target;
    struct limits limits;

    limits_open(&limits, target->proc, target_via(target));
    if (!limits_use(&limits, 0, &verb->use))
        verb->use.limit = 0;
    verb->machine = verb->use.limit == limits.machine;
    limits_close(&limits);
}

static fault_code perform_leak(struct leak_verb *verb, struct fault *fault)
{
    const struct options *options = verb->options;
    struct leak *leak = &verb->leak;
    fault_code rc = FAULT_NONE;

    if (options->output)
        rc =
            output_open_named(&verb->output, options->output, options->force, options->mode, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (verb->profiles)
        rc = leak_run(leak, &verb->attachment, fault);
    if (fault_lacks_profiling(rc) && !wants_samples(options)) {
        verb->no_samples = *fault;
        sampling_settle(&verb->attachment, &leak->sampling, fault);
        verb->profiles = false;
    }
    if (!verb->profiles)
        rc = leak_watch(leak, &verb->attachment, fault);
    if (rc != FAULT_NONE)
        return rc;
    look_at_end(verb);
    if (!options->json)
        verb->own_limit =
            own_limit_find(leak->grow.heaps, &verb->attachment.target, &verb->attachment.memory);
    read_limit(verb);
    verb->presentation.events = &verb->job.events;
    return show_leak(verb, fault);
}

/* A profile without a stack means that nothing has grown, as the answer says. */
static void note_leak(void *ctx, const struct run_note *note)
{
    if (note->kind != NOTE_PROFILE_EMPTY)
        notes_print(ctx, note);
}

/* In the way that tells most. */
static fault_code open_leak(struct leak_verb *verb, pid_t pid, struct fault *fault)
{
    struct attachment *attachment = &verb->attachment;
    struct attach_request request;
    fault_code rc;

    job_init(&verb->job, attachment, verb->options, "see what grows in process");
    verb->job.events.note = note_leak;
    request = job_look_request(&verb->job, pid);
    if (!verb->options->by_faults) {
        rc = access_open(attachment, &request, fault);
        verb->profiles = rc == FAULT_NONE;
        if (wants_samples(verb->options) ||
            (!fault_lacks_profiling(rc) && rc != FAULT_NO_ALLOCATOR))
            return rc;
        verb->no_samples = *fault;
        attachment_close(attachment);
    }
    rc = attachment_find(attachment, &request, fault);
    if (rc != FAULT_NO_ALLOCATOR)
        return rc;
    attachment_close(attachment);
    return attachment_map(attachment, &request, fault);
}

/* The end of the process is reported after what was seen of it. */
static int finish_leak(struct leak_verb *verb, fault_code rc, struct fault *fault)
{
    const struct subject subject = job_subject(&verb->job);
    struct leak *leak = &verb->leak;
    struct fault_words words;
    int code;

    /* A process without jemalloc has no samples, and needs no excuse. */
    if (rc == FAULT_NONE && !verb->profiles && !verb->options->quiet &&
        fault_lacks_profiling(verb->no_samples.code)) {
        message_words(&subject, &verb->no_samples, &words);
        message("no samples: %s%s", words.cause,
                leak->grows && leak->grow.refused.code == FAULT_NONE
                    ? "; stacks are those that touched the pages first"
                    : "");
    }
    if (rc == FAULT_NONE && leak->ended.code != FAULT_NONE) {
        *fault = leak->ended;
        rc = fault->code;
    }
    if (verb->profiles)
        return job_finish_sampling(&verb->job, &leak->sampling, rc, fault);
    code = job_finish(&verb->job, rc, fault);
    return code == EXIT_DONE && leak->interrupted ? EXIT_INTERRUPTED : code;
}

/* jemalloc's own format cannot express a difference; the growth by page faults is none. */
static bool prepare_leak(struct leak_verb *verb, const struct options *options)
{
    const enum format usual = options->by_faults && options->output ? FORMAT_RAW : FORMAT_TEXT;
    const struct leak_request request = {.duration_ns = options->duration_ns ? options->duration_ns
                                                                             : DEFAULT_NS,
                                         .settle_ns = options->settle_ns,
                                         .by_thread = options->report.by_thread,
                                         .impatient = options_to_stdout(options),
                                         .no_faults = options->by_samples,
                                         .only_faults = options->by_faults,
                                         .period = options->period};

    verb->options = options;
    leak_init(&verb->leak, &request);
    if (!presentation_init(&verb->presentation, options, usual))
        return false;
    if (options->by_faults || !format_is_unchanged(verb->presentation.format))
        return true;
    message("the formats raw and symbolized cannot contain the difference of two profiles: "
            "choose another format (-f)");
    return false;
}

static int leak_main(const struct options *options, pid_t pid)
{
    struct leak_verb verb = {.output.fd = -1};
    struct fault fault;
    fault_code rc;
    int code = EXIT_USAGE;

    if (prepare_leak(&verb, options)) {
        rc = open_leak(&verb, pid, &fault);
        if (rc == FAULT_NONE)
            rc = perform_leak(&verb, &fault);
        code = finish_leak(&verb, rc, &fault);
    }
    output_close(&verb.output);
    presentation_free(&verb.presentation);
    leak_free(&verb.leak);
    return code;
}

const struct verb verb_leak = {
    .name = "leak",
    .summary = "show what grows in a process, and which calls make it grow",
    .synopses = {"[options] PROCESS..."},
    .examples = {{"jeattach leak 4242", "a minute: what grows, by which calls"},
                 {"jeattach leak 4242 -d 10m -o growth.html", "ten, with a flame graph of it"},
                 {"jeattach leak redis-server -d 10s --json", "for a script"}},
    .takes = TAKES_OUTPUT | TAKES_FORMAT | TAKES_DURATION | TAKES_SETTLE | TAKES_HOOKS | TAKES_WAY |
             TAKES_GROWTH | TAKES_ANY,
    .intro = "Watches any process for a while, whatever its allocator is. The first line is\n"
             "the answer, with the evidence for it: exact counts of jemalloc's objects by\n"
             "size, read from its own records; stacks of sampled allocations, if profiling was\n"
             "enabled at start; who touched the new pages first, by sampled page faults; and\n"
             "the pages outside of jemalloc's objects. -v shows whole stacks, and all details.\n"
             "\n"
             "Counts come before samples: no stack is said to grow unless the objects of its\n"
             "size do, so that a cache that only turns over is never accused. Where several\n"
             "stacks may be it, they are named, with the time after which they can be told\n"
             "apart. Nothing is called where that is possible; the former value of prof.active\n"
             "is restored. Memory that was allocated before sampling began has no stack.\n",
    .notes = "Page faults require permission for perf_event_open(2): CAP_PERFMON, or\n"
             "kernel.perf_event_paranoid below 3. A process with more than 512 threads is\n"
             "sampled by CPU, which needs CAP_PERFMON or kernel.perf_event_paranoid below 1;\n"
             "samples of other processes are dropped. Without that as many threads are sampled\n"
             "as the limits permit; the output says how many.\n"
             "\n"
             "Ctrl-C (or SIGTERM) ends it early, with a result: exit code 130.\n",
    .options =
        {
            {"duration", NULL, "how long to watch: 60s (default), 5m, 1h"},
            {"output", NULL,
             "also write the growth to this file; - writes it to stdout instead. With --faults it "
             "is a heap profile whose objects are pages: in use are those gained, accumulated all "
             "that were touched"},
            {"format", NULL,
             "format of the growth: text, tree, flame, pprof, folded, dot, svg, json; with "
             "--faults "
             "also raw, symbolized"},
            {"rows", NULL,
             "show at most N rows of the table, not as many as fit on a screen; 0: all, however "
             "small"},
        },
    .run = leak_main,
};
