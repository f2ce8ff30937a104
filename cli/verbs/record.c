/* jeattach record */
#include "base/units.h"
#include "cli/faults.h"
#include "cli/filename_text.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/presentation.h"
#include "cli/verbs/verbs.h"
#include "run/capture.h"
#include "run/interrupt.h"
#include "run/sampling.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_NS (30ull * 1000000000)

/* A profile that was written, so that it can be told and, with --keep, be removed again. */
struct written {
    char *path;
    uint64_t bytes, time_ns;
    dev_t dev;
    ino_t ino;
    bool removed;
};

struct record {
    struct attachment attachment;
    struct job job;
    struct presentation presentation;
    struct sampling sampling;
    struct capture capture;
    struct output output;
    const struct options *options;
    char template[FILENAME_MAX_BYTES]; /* "-": stdout */
    char *last_name; /* before its number, which the next of the same name goes on from */
    unsigned last_number;
    uint64_t every_ns, until; /* between profiles; of the last one at most */
    struct written *written;
    size_t count;
    bool too_slow;
};

static bool to_stdout(const struct record *record)
{
    return strcmp(record->template, "-") == 0;
}

/* ---- files ---- */

/* The name as it is now. */
static fault_code make_name(const struct record *record, char *out, size_t size,
                            struct fault *fault)
{
    struct filename_facts facts;

    filename_facts(&facts, &record->attachment.target);
    if (filename_expand(record->template, format_extension(record->presentation.format), &facts,
                        out, size))
        return FAULT_NONE;
    return fault_set(fault, FAULT_OUTPUT, ENAMETOOLONG, "write output", "%s", record->template);
}

/* A name without anything to put in is one that was chosen: taken, it is refused at once. */
static fault_code open_output(struct record *record, struct fault *fault)
{
    char path[FILENAME_MAX_BYTES];
    bool may_number = record->options->every_ns || !record->options->output ||
                      filename_has_directives(record->template) ||
                      filename_is_directory(record->template);
    fault_code rc;

    if (to_stdout(record))
        return output_open(&record->output, "-", fault);
    rc = make_name(record, path, sizeof path, fault);
    return rc == FAULT_NONE ? output_open_new(&record->output, path, may_number, fault) : rc;
}

static fault_code note_written(struct record *record, struct fault *fault)
{
    struct written *list =
        reallocarray(record->written, record->count + 1, sizeof *record->written);
    struct written *written;

    if (!list)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "record", "the list of files");
    record->written = list;
    written = &list[record->count];
    *written = (struct written){.path = strdup(record->output.path),
                                .bytes = record->capture.bytes,
                                .time_ns = record->capture.time_ns};
    if (!written->path)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "record", "the list of files");
    record->count++;
    (void)outfile_identify(written->path, &written->dev, &written->ino);
    return FAULT_NONE;
}

/* Removes a profile of this run, unless another file has its name by now. */
static void remove_written(struct written *written)
{
    written->removed = written->ino && outfile_remove(written->path, written->dev, written->ino);
}

static void rotate(struct record *record)
{
    size_t keep = record->options->keep;

    if (keep && record->count > keep)
        remove_written(&record->written[record->count - keep - 1]);
}

/* As it is at the end. A name that rotation has freed is not used again. */
static fault_code name_output(struct record *record, struct fault *fault)
{
    char path[FILENAME_MAX_BYTES];
    fault_code rc = make_name(record, path, sizeof path, fault);

    if (rc != FAULT_NONE)
        return rc;
    if (record->last_name && strcmp(record->last_name, path) == 0)
        record->output.number = record->last_number + 1;
    free(record->last_name);
    record->last_name = strdup(path);
    if (!record->last_name || !output_name(&record->output, path))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "record", "%s", path);
    return FAULT_NONE;
}

static fault_code write_profile(struct record *record, struct fault *fault)
{
    fault_code rc = FAULT_NONE;
    char period[UNITS_TEXT];

    if (!memmem(record->capture.text.bytes, record->capture.text.len, "\n@ 0x", 5) &&
        record->presentation.format == FORMAT_RAW)
        message("no allocation was sampled: the sampling period is %s on average",
                units_bytes(ldexp(1, (int)(record->sampling.former.lg_sample & 63)), period));
    if (!to_stdout(record))
        rc = name_output(record, fault);
    if (rc == FAULT_NONE)
        rc = capture_write(&record->attachment, &record->presentation, &record->capture, NULL,
                           &record->output, fault);
    record->presentation.terse = true;
    record->last_number = record->output.number;
    if (rc == FAULT_NONE)
        rc = note_written(record, fault);
    if (rc == FAULT_NONE && !to_stdout(record) && !record->options->json) {
        printf("%s\n", record->output.path);
        fflush(stdout); /* a series is followed while it goes on */
    }
    output_close(&record->output);
    rotate(record);
    return rc;
}

/* ---- one profile ---- */

static fault_code last_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    return sampling_end(attachment, ctx, fault);
}

static fault_code middle_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    return sampling_look(attachment, ctx, fault);
}

/* The first Ctrl-C ends the waiting alone: what is being taken then is the result. */
static fault_code take_profile(struct record *record, bool last, struct fault *fault)
{
    fault_code rc = sampling_hold(&record->attachment, &record->sampling, &record->capture,
                                  last ? last_held : middle_held, &record->sampling, fault);

    /* Nothing is left to be given back: a reader that is slow can be left. */
    if (rc == FAULT_NONE && last)
        interrupt_patience(to_stdout(record) ? 0 : 2, NULL);
    if (rc == FAULT_NONE)
        rc = write_profile(record, fault);
    capture_free(&record->capture);
    return rc;
}

/* ---- all of them ---- */

/* When the next one is due; moments that have been missed are left out. */
static uint64_t next_moment(struct record *record, uint64_t moment)
{
    uint64_t now = clock_now(), next = moment + record->every_ns;

    if (next < now) {
        if (!record->too_slow)
            message("writing a profile takes longer than --every: some profiles are skipped");
        record->too_slow = true;
        next += (now - next) / record->every_ns * record->every_ns;
    }
    return next < record->until ? next : record->until;
}

static bool is_last(const struct record *record, uint64_t moment)
{
    const struct options *options = record->options;

    return record->sampling.interrupted || moment >= record->until ||
           (options->count && record->count + 1 >= options->count);
}

static fault_code record_all(struct record *record, struct fault *fault)
{
    uint64_t moment = record->sampling.began;
    fault_code rc = FAULT_NONE;
    bool last = false;

    while (rc == FAULT_NONE && !last) {
        moment = next_moment(record, moment);
        switch (sampling_wait(&record->attachment, &record->sampling, RUN_RECORDING, moment)) {
        case PAUSE_ENDED:
            return sampling_lost(&record->attachment, fault);
        case PAUSE_INTERRUPTED:
        case PAUSE_OVER:
            break;
        }
        last = is_last(record, moment);
        if (record->output.fd < 0)
            rc = open_output(record, fault);
        if (rc == FAULT_NONE)
            rc = take_profile(record, last, fault);
    }
    return rc;
}

static fault_code begin_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    return sampling_begin(attachment, ctx, fault);
}

static void print_json(const struct record *record)
{
    const struct attachment *attachment = &record->attachment;
    struct json json;

    attachment_json_begin(attachment, &json);
    sampling_json(&record->sampling, &json);
    json_list_begin(&json, "profiles");
    for (size_t i = 0; i < record->count; i++) {
        json_item_begin(&json);
        json_text(&json, "path", record->written[i].path);
        json_number(&json, "bytes", record->written[i].bytes);
        json_number(&json, "time_ns", record->written[i].time_ns);
        json_bool(&json, "removed", record->written[i].removed);
        json_item_end(&json);
    }
    json_list_end(&json);
    json_number(&json, "holds", attachment->holds);
    json_number(&json, "longest_held_ns", attachment->longest_ns);
    attachment_json(attachment, &json);
    json_end(&json);
}

static fault_code run(struct record *record, struct fault *fault)
{
    struct attachment *attachment = &record->attachment;
    const struct options *options = record->options;
    fault_code rc;

    record->presentation.events = &record->job.events;
    if (options->dry_run)
        return job_describe(&record->job, verb_record.calls, fault);
    rc = open_output(record, fault);
    if (rc == FAULT_NONE)
        rc = attachment_hold(attachment, begin_held, &record->sampling, fault);
    rc = sampling_begun(attachment, &record->sampling, rc, fault);
    if (rc != FAULT_NONE)
        return rc;
    record->until = UINT64_MAX;
    if (options->duration_ns)
        record->until = record->sampling.began + options->duration_ns;
    else if (!options->every_ns)
        record->until = record->sampling.began + record->every_ns;
    return record_all(record, fault);
}

/* What can be seen to be wrong before a process is looked at. */
static bool prepare(struct record *record, const struct options *options)
{
    const char *output = options->output ? options->output : ".", *wrong;

    record->options = options;
    record->every_ns = options->every_ns      ? options->every_ns
                       : options->duration_ns ? options->duration_ns
                                              : DEFAULT_NS;
    if (!presentation_init(&record->presentation, options, FORMAT_RAW))
        return false;
    wrong = strcmp(output, "-") == 0 ? NULL : filename_flaw_text(filename_check(output));
    if (!wrong && strcmp(output, "-") == 0 && options->every_ns)
        wrong = "a series cannot be written to stdout: give -o a file name, or omit it";
    if (wrong)
        message("%s", wrong);
    else
        snprintf(record->template, sizeof record->template, "%s%s",
                 options->output ? output : FILENAME_DEFAULT,
                 options->output ? "" : format_extension(record->presentation.format));
    return !wrong;
}

static void release(struct record *record)
{
    output_close(&record->output);
    presentation_free(&record->presentation);
    for (size_t i = 0; i < record->count; i++)
        free(record->written[i].path);
    free(record->written);
    free(record->last_name);
}

static int record_main(const struct options *options, pid_t pid)
{
    struct record record = {.output.fd = -1};
    struct fault fault;
    fault_code rc;
    int code = EXIT_USAGE;

    if (prepare(&record, options)) {
        rc = job_open(&record.job, &record.attachment, options, pid, "record process", &fault);
        if (rc == FAULT_NONE)
            rc = run(&record, &fault);
        if (record.count && options->json && !to_stdout(&record))
            print_json(&record);
        code = job_finish_sampling(&record.job, &record.sampling, rc, &fault);
    }
    release(&record);
    return code;
}

const struct verb verb_record = {
    .name = "record",
    .summary = "sample for a while, write a profile, restore the former state",
    .synopses = {"[options] PID..."},
    .takes = TAKES_OUTPUT | TAKES_FORMAT | TAKES_DURATION | TAKES_SERIES | TAKES_HOOKS,
    .intro = "Switches profiling on, waits, takes a profile, restores the former value of\n"
             "prof.active and reads it back. The profile is streamed: nothing is created on\n"
             "the target's side. Prints the path of the file.\n",
    .notes = "Ctrl-C (or SIGTERM) ends it early and writes what was sampled so far: exit code\n"
             "130. A second one restores the former state without a result; a third exits at\n"
             "once. A thread is stopped only at the start and for each profile. If jeattach is\n"
             "ended by SIGKILL, the target continues with profiling on; to switch it off:\n"
             "jeattach off PID.\n",
    .options =
        {
            {"output", NULL,
             "write to this file; - is stdout. Existing files are never overwritten. In the name, "
             "%n is replaced by the name of the process, %p by its pid, %P by its pid in its own "
             "namespace, %t by the time (UTC), %r by the RSS, %h by the host, %% by a percent "
             "sign. Default, also in a directory: %n-%p-%t-%r.heap; a number is added to a name "
             "that is taken: x-1.heap"},
            {"timeout", NULL, "time limit for each stop (default 30s)"},
            {"verbose", NULL, "also show how to restore prof.active if jeattach is killed"},
        },
    .calls =
        {
            "mallctl version, config.prof, opt.prof, prof.active, ... (read)",
            "mallctl arenas.narenas, opt.narenas, arena.<each>.extent_hooks (read)",
            "mallctl prof.active=true (write, then read back), unless it is true",
            "no call while it waits; then in one stop:",
            "mallctl prof.active (read; the former value written and read back)",
            "mallctl prof.dump",
        },
    .run = record_main,
};
