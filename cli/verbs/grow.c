/* jeattach grow */
#include "run/grow/grow.h"
#include "cli/job.h"
#include "cli/notes.h"
#include "cli/output/attachment_json.h"
#include "cli/output/grow_view.h"
#include "cli/presentation.h"
#include "cli/verbs/verbs.h"

#include <stdio.h>

#define DEFAULT_NS (30ull * 1000000000)

enum { ROWS_DEFAULT = 10 };

struct grow_verb {
    struct attachment attachment;
    struct job job;
    struct presentation presentation;
    struct output output;
    const struct options *options;
    struct grow grow;
};

/* ---- what is printed ---- */

static void print_grow_json(const struct grow_verb *verb, const struct grow_view *view)
{
    struct json json;

    attachment_json_begin(&verb->attachment, &json);
    grow_json(view, &json);
    json_text_or_null(&json, "path", verb->options->output);
    json_end(&json);
}

static bool print_growth(const struct samples *samples, const struct display *display, void *ctx)
{
    const struct grow_verb *verb = ctx;
    struct grow_rows rows;
    const struct grow_view view = {.grow = &verb->grow,
                                   .rows = &rows,
                                   .samples = samples,
                                   .target = &verb->attachment.target,
                                   .limit =
                                       verb->options->report.rows ? display->rows : ROWS_DEFAULT,
                                   .depth = display->depth,
                                   .colors = isatty(STDOUT_FILENO) != 0};
    bool good = grow_rows_make(&rows, &verb->grow, samples, GROW_KINDS, GROW_ROWS_BY_STACK);

    if (good && verb->options->json)
        print_grow_json(verb, &view);
    else if (good)
        grow_print(&view, stdout);
    fflush(stdout); /* before the messages */
    grow_rows_free(&rows);
    return good;
}

/* ---- the verb ---- */

/* A profile without a stack means that nothing has grown, as the answer says. */
static void note_growth(void *ctx, const struct run_note *note)
{
    if (note->kind != NOTE_PROFILE_EMPTY)
        notes_print(ctx, note);
}

static fault_code describe_grow(const struct grow_verb *verb)
{
    job_print_head(&verb->job);
    printf("calls      none: the kernel samples page faults (perf_event_open(2)), and "
           "/proc/%d/pagemap\n"
           "           shows which pages are in memory; no thread is stopped\n",
           (int)verb->attachment.target.pid);
    return FAULT_NONE;
}

/* The profile as it is needs no names: the table, which does, is made after it. */
static fault_code show_growth(struct grow_verb *verb, struct fault *fault)
{
    const struct options *options = verb->options;
    struct presentation *presentation = &verb->presentation;
    struct capture *capture = &verb->grow.capture;
    struct output *output = options->output ? &verb->output : NULL;
    fault_code rc;

    presentation->events = &verb->job.events;
    presentation->also_ctx = verb;
    if (!options_to_stdout(options))
        presentation->also = print_growth;
    if (!output || presentation->format != FORMAT_RAW || !presentation->also)
        return capture_write(&verb->attachment, presentation, capture, output, fault);
    rc = capture_write(&verb->attachment, presentation, capture, output, fault);
    presentation->format = FORMAT_TEXT;
    return rc == FAULT_NONE ? capture_write(&verb->attachment, presentation, capture, NULL, fault)
                            : rc;
}

static fault_code perform_grow(struct grow_verb *verb, struct fault *fault)
{
    const struct options *options = verb->options;
    fault_code rc = FAULT_NONE;

    if (options->dry_run)
        return describe_grow(verb);
    if (options->output)
        rc =
            output_open_named(&verb->output, options->output, options->force, options->mode, fault);
    if (rc == FAULT_NONE)
        rc = grow_run(&verb->grow, &verb->attachment, fault);
    if (rc != FAULT_NONE)
        return rc;
    return show_growth(verb, fault);
}

/* The end of the process is reported after what was seen of it. */
static int finish_grow(struct grow_verb *verb, fault_code rc, struct fault *fault)
{
    int code;

    if (rc == FAULT_NONE && verb->grow.ended.code != FAULT_NONE) {
        *fault = verb->grow.ended;
        rc = fault->code;
    }
    code = job_finish(&verb->job, rc, fault);
    return code == EXIT_DONE && verb->grow.interrupted ? EXIT_INTERRUPTED : code;
}

static int run_grow(struct grow_verb *verb, const struct options *options, pid_t pid)
{
    struct attach_request request;
    struct fault fault;
    fault_code rc;

    job_init(&verb->job, &verb->attachment, options, "see what makes the RSS grow in process");
    verb->job.events.note = note_growth;
    request = job_request(&verb->job, pid);
    rc = attachment_map(&verb->attachment, &request, &fault);
    if (rc == FAULT_NONE)
        rc = perform_grow(verb, &fault);
    return finish_grow(verb, rc, &fault);
}

static int grow_main(const struct options *options, pid_t pid)
{
    const struct grow_request request = {.duration_ns = options->duration_ns ? options->duration_ns
                                                                             : DEFAULT_NS,
                                         .period = options->period,
                                         .objects = true};
    struct grow_verb verb = {.output.fd = -1, .options = options};
    int code = EXIT_USAGE;

    grow_init(&verb.grow, &request);
    if (presentation_init(&verb.presentation, options, options->output ? FORMAT_RAW : FORMAT_TEXT))
        code = run_grow(&verb, options, pid);
    output_close(&verb.output);
    presentation_free(&verb.presentation);
    grow_free(&verb.grow);
    return code;
}

const struct verb verb_grow = {
    .name = "grow",
    .summary = "show what makes the RSS grow, by stack, in any process",
    .synopses = {"[options] PID..."},
    .takes = TAKES_GROW | TAKES_OUTPUT | TAKES_FORMAT,
    .intro = "Samples page faults for a while and shows which stacks touched the memory that\n"
             "the process has gained. Needs no profiling, no jemalloc and no preparation;\n"
             "calls nothing and stops nothing. The first line is the answer. Then: what the\n"
             "RSS consists of that was gained; how much of it is known by stack, and from how\n"
             "many samples; and a row for each stack.\n"
             "\n"
             "Which pages were gained is exact (/proc/PID/pagemap); the samples share them\n"
             "out. Memory that is touched and given back counts only as far as it is still\n"
             "there and likely to stay: the rest is \"in flight\". Memory that an allocator\n"
             "takes from what it already has causes no page fault, and is no growth.\n",
    .notes = "Requires permission for perf_event_open(2): CAP_PERFMON, or\n"
             "kernel.perf_event_paranoid below 3 and the rights to read the process.\n"
             "\n"
             "A process with more than 512 threads is sampled by CPU, which needs CAP_PERFMON\n"
             "or kernel.perf_event_paranoid below 1; samples of other processes are dropped.\n"
             "Without that as many threads are sampled as the limits permit; the output says\n"
             "how many.\n"
             "\n"
             "Ctrl-C (or SIGTERM) ends it early, with a result: exit code 130.\n",
    .options =
        {
            {"duration", NULL, "how long to sample: 30s (default), 5m, 1h"},
            {"output", NULL,
             "also write the growth to this file, as a heap profile whose objects are pages: in "
             "use are those gained, accumulated all that were touched. - writes it to stdout "
             "instead"},
            {"format", NULL,
             "format of that profile: raw, symbolized, text, tree, flame, pprof, folded, dot, svg, "
             "json"},
            {"rows", NULL, "show at most N rows of the table (default 10); 0: all"},
        },
    .calls = {NULL},
    .run = grow_main,
};
