/* jeattach record */
#include "base/units.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/presentation.h"
#include "cli/verbs/verbs.h"
#include "cli/words.h"
#include "run/recording.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_NS (30ull * 1000000000)
#define DAY_NS     (24.0 * 3600 * 1000000000)

enum { STEP_PERCENT = 5 }; /* of a new peak */

struct record {
    struct attachment attachment;
    struct job job;
    struct presentation presentation;
    struct recording recording;
    const struct options *options;
    char template[FILENAME_MAX_BYTES]; /* "-": stdout */
};

static bool records_to_stdout(const struct record *record)
{
    return strcmp(record->template, "-") == 0;
}

/* True if only Ctrl-C or a full disk would end it. The RSS limits the new peaks by itself. */
static bool is_endless(const struct options *options)
{
    return (options->every_ns || options->every_bytes) && !options->count && !options->keep &&
           !options->duration_ns;
}

static void announce_endless(const struct options *options)
{
    static const char advice[] = "until Ctrl-C; --count N or -d D ends the series, --keep N keeps "
                                 "only the last N files";
    char every[UNITS_TEXT];

    if (!is_endless(options))
        return;
    if (options->every_bytes)
        message("no limit given: a profile for every %s allocated, %s",
                units_bytes((double)options->every_bytes, every), advice);
    else
        message("no limit given: a profile every %s, %.0f a day, %s",
                units_duration(options->every_ns, every), DAY_NS / (double)options->every_ns,
                advice);
}

static void print_written(void *ctx, const struct recorded *recorded)
{
    const struct record *record = ctx;
    const struct options *options = record->options;
    char one[UNITS_TEXT], day[UNITS_TEXT];

    if (!records_to_stdout(record) && !options->json) {
        printf("%s\n", recorded->path);
        fflush(stdout); /* so that a series can be followed */
    }
    /* The space that an endless series needs, as far as its first profile tells. */
    if (record->recording.count == 1 && !options->quiet && is_endless(options) && options->every_ns)
        message("the first profile has %s: about %s a day",
                units_bytes((double)recorded->bytes, one),
                units_bytes((double)recorded->bytes * (DAY_NS / (double)options->every_ns), day));
    if (options->on_new_peak && recorded->why == RECORDED_END && !options->quiet)
        message("the RSS has not reached a new peak: the profile is of the end");
}

static void print_record_json(const struct record *record)
{
    const struct attachment *attachment = &record->attachment;
    static const char *const reasons[] = {[RECORDED_END] = "end",
                                          [RECORDED_TIME] = "time",
                                          [RECORDED_BYTES] = "bytes",
                                          [RECORDED_PEAK] = "peak",
                                          [RECORDED_GONE] = "gone"};
    const struct recording *recording = &record->recording;
    struct json json;

    attachment_json_begin(attachment, &json);
    sampling_json(&recording->sampling, &json);
    json_list_begin(&json, "profiles");
    for (size_t i = 0; i < recording->count; i++) {
        const struct recorded *profile = &recording->list[i];
        JSON_ITEM(&json, TEXT("path", profile->path), NUMBER("bytes", profile->bytes),
                  NUMBER("time_ns", profile->time_ns), TEXT("reason", reasons[profile->why]),
                  CUT_SHORT(profile->age_ns), NUMBER("rss", profile->rss),
                  WHEN(recording->request.trigger.bytes, NUMBER("allocated", profile->allocated)),
                  FLAG("removed", profile->removed));
    }
    json_list_end(&json);
    JSON_MEMBERS(&json, NUMBER("holds", attachment->caller.holds),
                 NUMBER("longest_held_ns", attachment->caller.longest_ns));
    way_json(attachment, access_calls(attachment), &json);
    attachment_json(attachment, &json);
    json_end(&json);
}

/* Checks the options before the process is read. */
static bool prepare_record(struct record *record, const struct options *options)
{
    const char *output = options->output ? options->output : ".", *wrong = NULL;
    const bool series = options_is_series(options), to_stdout = strcmp(output, "-") == 0;
    /* A single profile ends after -d or 30 seconds, a series after -d or never. */
    const uint64_t single = options->duration_ns ? options->duration_ns : DEFAULT_NS;
    const unsigned step = options->step ? options->step : STEP_PERCENT;
    struct recording_request request;

    record->options = options;
    if (!presentation_init(&record->presentation, options, FORMAT_RAW))
        return false;
    if (!to_stdout)
        wrong = filename_flaw_text(filename_check(output));
    else if (series)
        wrong = "a series cannot be written to stdout: give -o a file name, or omit it";
    if (wrong) {
        message("%s", wrong);
        return false;
    }
    snprintf(record->template, sizeof record->template, "%s%s",
             options->output ? output : FILENAME_DEFAULT,
             options->output ? "" : format_extension(record->presentation.format));
    record->presentation.events = &record->job.events;
    request = (struct recording_request){
        .template = record->template,
        .made_up = !options->output || filename_is_directory(options->output),
        .may_number = series || !options->output,
        .replace = options->force,
        .mode = options->mode,
        .every_ns = options->every_ns ? options->every_ns : single,
        .trigger = {.bytes = options->every_bytes, .percent = options->on_new_peak ? step : 0},
        .duration_ns = series && !options->duration_ns ? UINT64_MAX : single,
        .count = options->count,
        .keep = options->keep,
        .presentation = &record->presentation,
        .written = print_written,
        .ctx = record};
    recording_init(&record->recording, &request, &record->attachment);
    return true;
}

static int record_main(const struct options *options, pid_t pid)
{
    struct record record = {.recording.output.fd = -1};
    struct fault fault;
    fault_code rc;
    int code = EXIT_USAGE;

    if (prepare_record(&record, options)) {
        rc = job_open_profile(&record.job, &record.attachment, options, pid, "record process",
                              &fault);
        record.job.keeps_samples = true;
        if (rc == FAULT_NONE)
            rc = recording_run(&record.recording, &fault);
        if (record.recording.count && options->json && !records_to_stdout(&record))
            print_record_json(&record);
        code = job_finish_sampling(&record.job, &record.recording.sampling, rc, &fault);
    }
    recording_free(&record.recording);
    presentation_free(&record.presentation);
    return code;
}

const struct verb verb_record = {
    .name = "record",
    .summary = "sample for a while, write a profile, restore the former state",
    .synopses = {"[options] PROCESS..."},
    .examples = {{"jeattach record 4242 -d 30s -o load.html", "30 s, as a flame graph"},
                 {"jeattach record 4242 --every 1h --keep 24 -o heaps", "one an hour, the last 24"},
                 {"jeattach record 4242 --on-new-peak -o 'peak-%t.heap'", "at each new peak"}},
    .takes = TAKES_OUTPUT | TAKES_FORMAT | TAKES_DURATION | TAKES_SERIES | TAKES_HOOKS | TAKES_WAY |
             TAKES_CALL,
    .intro = "Switches profiling on, waits, takes a profile, restores the former value of\n"
             "prof.active and reads it back. The profile is read from the memory of the\n"
             "process, and prof.active is one byte there: no call, no thread stopped. Where\n"
             "that is not possible, a thread makes calls, at the start and for each profile.\n"
             "Nothing is created on the target's side. Prints the path of the file.\n",
    .notes = "Ctrl-C (or SIGTERM) ends it early and writes the samples taken so far: exit code\n"
             "130. A second one restores the former state without a result; a third exits at\n"
             "once. If jeattach is ended by SIGKILL, the target continues with profiling on;\n"
             "to switch it off: jeattach off PID.\n"
             "\n"
             "If the process ends, the last complete profile that was read of it is written:\n"
             "exit code 3. Reading from memory for that takes a tenth of the time at most. A\n"
             "name that is made up then contains -cut-short.\n"
             "\n"
             "fork(2) copies prof.active: children that were forked meanwhile and sample on\n"
             "are named at the end, with the command that switches them off. Of several runs\n"
             "on one process the last one restores the former value.\n",
    .options =
        {
            {"output", NULL,
             "write to this file; - is stdout. In the name, "
             "%n is replaced by the name of the process, %p by its pid, %P by its pid in its own "
             "namespace, %t by the time (UTC), %r by the RSS, %h by the host, %% by a percent "
             "sign. Default, also in a directory: %n-%p-%t-%r.heap; a number is added to a name "
             "that is taken: x-1.heap"},
            {"duration", NULL, "how long to sample: 30s (default; a series: no limit), 5m, 1h"},
            {"timeout", NULL, "time limit for each stop (default 30s)"},
            {"verbose", NULL, "also show how to restore prof.active if jeattach is killed"},
        },
    .announce = announce_endless,
    .run = record_main,
};
