/* jeattach leak */
#include "run/leak.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/stack_json.h"
#include "cli/presentation.h"
#include "cli/verbs/verbs.h"
#include "profile/views/growth_answer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ANSWER_BYTES = 1024 };

#define DEFAULT_NS (60ull * 1000000000)

struct leak_verb {
    struct attachment attachment;
    struct job job;
    struct presentation presentation;
    struct output output;
    const struct options *options;
    struct leak leak;
};

/* Without a call. */
static void print_rss(const struct leak *leak)
{
    double from = (double)leak->before.rss, to = (double)leak->after.rss;
    char texts[4][UNITS_TEXT];

    printf("RSS: %s -> %s, %s in %s (stats.allocated needs a call: --call)\n",
           units_bytes(from, texts[0]), units_bytes(to, texts[1]),
           units_change(to - from, texts[2]),
           units_duration(leak->after.at_ns - leak->before.at_ns, texts[3]));
}

static void print_counted(const struct leak *leak)
{
    const struct stats_gauges *before = &leak->before.gauges, *after = &leak->after.gauges;
    double grown = (double)after->allocated - (double)before->allocated;
    uint64_t took_ns = leak->after.at_ns - leak->before.at_ns;
    char from[UNITS_TEXT], to[UNITS_TEXT], change[UNITS_TEXT], took[UNITS_TEXT], rate[UNITS_TEXT];

    printf("stats.allocated: %s -> %s, %s in %s, %s\n",
           units_bytes((double)before->allocated, from), units_bytes((double)after->allocated, to),
           units_change(grown, change), units_duration(took_ns, took),
           units_rate(grown / ((double)took_ns / 1e9), rate));
    if (leak->after.overhead > leak->before.overhead)
        printf("  %s of this is caused by sampling: a sampled object takes at least 16 KiB\n",
               units_change(leak->after.overhead - leak->before.overhead, change));
}

/*
 * Memory that was allocated before sampling has no stack. An estimate may exceed
 * what is counted.
 */
static void print_coverage(const struct leak *leak)
{
    double percent = leak_covered_percent(leak);
    char sampled[UNITS_TEXT], of[UNITS_TEXT];

    units_bytes(leak->after.sampled, sampled);
    units_bytes(leak_covered_whole(leak), of);
    if (leak->after.counted && percent >= 100) {
        printf("covered: the samples represent %s, about all that is allocated (%s)\n", sampled,
               of);
        return;
    }
    if (leak->after.counted)
        printf("covered: the samples represent %s, %.1f %% of %s; ", sampled, percent, of);
    else
        printf("covered: the samples represent %s; ", sampled);
    printf("memory allocated before sampling started is not covered\n");
}

static void print_sum(const struct leak *leak, const struct growth *growth,
                      const struct display *display)
{
    char grown[DISPLAY_NUMBER_SIZE], shrunk[DISPLAY_NUMBER_SIZE], error[DISPLAY_NUMBER_SIZE],
        time[UNITS_TEXT];

    if (leak->dropped.known)
        printf("since prof.reset: objects allocated since and still in use, not the net growth\n");
    printf("sampled for %s: grew by %s, shrank by %s, error of the sum about %s\n",
           units_duration(sampling_ns(&leak->sampling), time),
           display_bytes(display, (double)growth->grown, grown),
           display_bytes(display, (double)-growth->shrunk, shrunk),
           display_bytes(display, growth->error, error));
}

/* The samples of all stacks whose objects have the size of the answer's. */
struct class_check {
    uint64_t size;
    double counted, low, high; /* growth in bytes, as jemalloc counts it, and as estimated */
};

static bool check_class(const struct leak *leak, const struct growth *growth,
                        const struct samples *samples, struct class_check *check)
{
    struct growth_answer answer;
    double bytes = 0, error = 0, ignored;
    uint64_t size;

    growth_answer_choose(&answer, growth, samples);
    if (!answer.row || !leak_class_growth(leak, samples->list[answer.row->sample].size,
                                          &check->size, &check->counted))
        return false;
    for (size_t i = 0; i < growth->count; i++) {
        const struct growth_row *row = &growth->rows[i];
        if (!leak_class_growth(leak, samples->list[row->sample].size, &size, &ignored) ||
            size != check->size)
            continue;
        bytes += (row->trend.low + row->trend.high) / 2;
        error = hypot(error, (row->trend.high - row->trend.low) / 2);
    }
    check->low = bytes - error;
    check->high = bytes + error;
    return true;
}

static void print_class(const struct leak *leak, const struct growth *growth,
                        const struct samples *samples)
{
    struct class_check check;
    char counted[UNITS_TEXT], low[UNITS_TEXT], high[UNITS_TEXT];

    if (check_class(leak, growth, samples, &check))
        printf("  objects of %llu bytes: jemalloc counts %s; the samples say %s to %s%s\n",
               (unsigned long long)check.size, units_change(check.counted, counted),
               units_change(check.low, low), units_change(check.high, high),
               leak->dropped.known ? " (older ones that were freed are not subtracted)" : "");
}

static void print_answer(const struct leak_verb *verb, const struct growth *growth,
                         const struct samples *samples, const struct display *display)
{
    const struct target *target = &verb->attachment.target;
    struct growth_answer answer;
    char clean[64], text[ANSWER_BYTES];

    growth_answer_choose(&answer, growth, samples);
    growth_answer_text(&answer, growth, samples, display, text, sizeof text);
    if (display->colors)
        fputs("\033[1m", stdout);
    printf("%s[%d] ", message_clean(target->stat.comm, clean, sizeof clean), (int)target->pid);
    text_write_clean(stdout, text, "");
    fputs(display->colors ? "\033[0m\n" : "\n", stdout);
}

static bool print_table(const struct samples *samples, const struct display *display, void *ctx)
{
    const struct leak_verb *verb = ctx;
    const struct leak *leak = &verb->leak;
    struct growth growth;
    struct display own = *display;

    if (!growth_make(&growth, samples, leak_seconds(leak)))
        return false;
    own.colors = isatty(STDOUT_FILENO);
    print_answer(verb, &growth, samples, &own);
    if (leak->before.counted && leak->after.counted) {
        print_counted(leak);
        print_class(leak, &growth, samples);
    } else if (verb->attachment.switches) {
        print_rss(leak);
    } else if (leak->ended.code == FAULT_NONE) {
        printf("stats.allocated is not known: this jemalloc was built without statistics\n");
    }
    print_coverage(leak);
    print_sum(leak, &growth, &own);
    growth_write(&growth, samples, &own, stdout);
    fflush(stdout); /* before the messages */
    growth_free(&growth);
    return true;
}

static void json_row(struct json *json, const struct samples *samples, const struct growth_row *row)
{
    json_signed(json, "bytes", row->bytes);
    json_signed(json, "objects", row->objects);
    json_rounded(json, "error", trunc(row->error));
    json_rounded(json, "bytes_per_s", trunc(row->bytes_per_s));
    json_rounded(json, "low", trunc(row->trend.low));
    json_rounded(json, "high", trunc(row->trend.high));
    json_text(json, "verdict", trend_verdict_name(row->trend.verdict));
    json_bool(json, "within_error", row->within);
    if (row->trend.verdict == TREND_STOPPED)
        json_rounded(json, "stopped_s", row->trend.stopped);
    else
        json_null(json, "stopped_s");
    stack_json(json, "stack", samples, &samples->list[row->sample]);
}

static void json_ends(const struct leak *leak, struct json *json)
{
    if (leak->before.counted && leak->after.counted) {
        json_number(json, "allocated_before", leak->before.gauges.allocated);
        json_number(json, "allocated_after", leak->after.gauges.allocated);
        json_number(json, "sampling_before", (uint64_t)leak->before.overhead);
        json_number(json, "sampling_after", (uint64_t)leak->after.overhead);
        json_number(json, "covered_percent", (uint64_t)leak_covered_percent(leak));
    } else {
        json_null(json, "allocated_before");
        json_null(json, "allocated_after");
        json_null(json, "sampling_before");
        json_null(json, "sampling_after");
        json_null(json, "covered_percent");
    }
    json_number(json, "sampled_bytes", (uint64_t)leak->after.sampled);
    json_number(json, "allocated_ns", leak->after.at_ns - leak->before.at_ns);
}

static void json_class(const struct leak *leak, const struct growth *growth,
                       const struct samples *samples, struct json *json)
{
    struct class_check check;

    if (!check_class(leak, growth, samples, &check)) {
        json_null(json, "class");
        return;
    }
    json_object_begin(json, "class");
    json_number(json, "size", check.size);
    json_rounded(json, "counted", trunc(check.counted));
    json_rounded(json, "low", trunc(check.low));
    json_rounded(json, "high", trunc(check.high));
    json_object_end(json);
}

static void json_dropped(const struct leak_dropped *dropped, struct json *json)
{
    if (dropped->known) {
        json_number(json, "dropped_bytes", dropped->bytes);
        json_number(json, "dropped_stacks", dropped->stacks);
    } else {
        json_null(json, "dropped_bytes");
        json_null(json, "dropped_stacks");
    }
}

static void json_answer(const struct growth *growth, const struct samples *samples,
                        const struct display *display, struct json *json)
{
    struct growth_answer answer;
    char text[ANSWER_BYTES];

    growth_answer_choose(&answer, growth, samples);
    json_text(json, "verdict", growth_verdict_name(answer.verdict));
    json_text(json, "answer",
              growth_answer_text(&answer, growth, samples, display, text, sizeof text));
    json_rounded(json, "unseen", trunc(answer.unseen));
}

static bool print_leak_json(const struct samples *samples, const struct display *display, void *ctx)
{
    const struct leak_verb *verb = ctx;
    const struct leak *leak = &verb->leak;
    const struct attachment *attachment = &verb->attachment;
    struct growth growth;
    struct json json;

    if (!growth_make(&growth, samples, leak_seconds(leak)))
        return false;
    attachment_json_begin(attachment, &json);
    json_answer(&growth, samples, display, &json);
    sampling_json(&leak->sampling, &json);
    json_ends(leak, &json);
    json_class(leak, &growth, samples, &json);
    json_dropped(&leak->dropped, &json);
    json_signed(&json, "grown", growth.grown);
    json_signed(&json, "shrunk", growth.shrunk);
    json_rounded(&json, "error", trunc(growth.error));
    json_text_or_null(&json, "path", verb->options->output);
    cut_short_json(leak->sampling.cut_short_ns, &json);
    json_number(&json, "rss_before", leak->before.rss);
    json_number(&json, "rss_after", leak->after.rss);
    json_list_begin(&json, "rows");
    for (size_t i = 0; i < growth_shown(&growth, display); i++) {
        json_item_begin(&json);
        json_row(&json, samples, &growth.rows[i]);
        json_item_end(&json);
    }
    json_list_end(&json);
    json_number(&json, "holds", attachment->holds);
    json_number(&json, "longest_held_ns", attachment->longest_ns);
    way_json(attachment, &json);
    attachment_json(attachment, &json);
    json_end(&json);
    growth_free(&growth);
    return true;
}

static fault_code show(struct leak_verb *verb, struct fault *fault)
{
    const struct options *options = verb->options;
    struct leak *leak = &verb->leak;
    fault_code rc = leak_estimate(leak, fault);

    if (rc != FAULT_NONE)
        return rc;
    if (!options_to_stdout(options))
        verb->presentation.also = options->json ? print_leak_json : print_table;
    verb->presentation.also_ctx = verb;
    verb->presentation.events = &verb->job.events;
    verb->presentation.cut_short = leak->sampling.cut_short_ns;
    return leak_write(leak, &verb->attachment, &verb->presentation,
                      options->output ? &verb->output : NULL, fault);
}

static fault_code perform_leak(struct leak_verb *verb, struct fault *fault)
{
    const struct options *options = verb->options;
    const struct leak_request request = {.duration_ns = options->duration_ns ? options->duration_ns
                                                                             : DEFAULT_NS,
                                         .settle_ns = options->settle_ns,
                                         .reset = options->reset,
                                         .by_thread = options->report.by_thread,
                                         .impatient = options_to_stdout(options)};
    fault_code rc = FAULT_NONE;

    if (options->dry_run)
        return job_describe_sampling(&verb->job, verb_leak.calls, fault);
    if (options->output)
        rc =
            output_open_named(&verb->output, options->output, options->force, options->mode, fault);
    if (rc == FAULT_NONE)
        rc = leak_run(&verb->leak, &verb->attachment, &request, fault);
    return rc == FAULT_NONE ? show(verb, fault) : rc;
}

/* jemalloc's own format cannot express a difference. */
static bool prepare_leak(struct leak_verb *verb, const struct options *options)
{
    verb->options = options;
    leak_init(&verb->leak);
    if (!presentation_init(&verb->presentation, options, FORMAT_TEXT))
        return false;
    if (!format_is_unchanged(verb->presentation.format))
        return true;
    message("the formats raw and symbolized cannot contain the difference of two profiles: "
            "choose another format (-f)");
    return false;
}

static void release(struct leak_verb *verb)
{
    output_close(&verb->output);
    presentation_free(&verb->presentation);
    leak_free(&verb->leak);
}

static int leak_main(const struct options *options, pid_t pid)
{
    struct leak_verb verb = {.output.fd = -1};
    struct fault fault;
    fault_code rc;
    int code = EXIT_USAGE;

    if (prepare_leak(&verb, options)) {
        rc = job_open_profile(&verb.job, &verb.attachment, options, pid,
                              "look for leaks in process", &fault);
        if (rc == FAULT_NONE)
            rc = perform_leak(&verb, &fault);
        if (rc == FAULT_NONE && verb.leak.ended.code != FAULT_NONE) {
            fault = verb.leak.ended;
            rc = fault.code;
        }
        code = job_finish_sampling(&verb.job, &verb.leak.sampling, rc, &fault);
    }
    release(&verb);
    return code;
}

const struct verb verb_leak = {
    .name = "leak",
    .summary = "show what grows, by stack, the largest growth first",
    .synopses = {"[options] PID..."},
    .takes = TAKES_OUTPUT | TAKES_FORMAT | TAKES_DURATION | TAKES_SETTLE | TAKES_HOOKS | TAKES_WAY |
             TAKES_FREEZE,
    .intro = "Takes a profile, samples for a while, takes another, and restores the former\n"
             "value of prof.active. The first line is the answer: what leaks, how quickly, and\n"
             "the interval of that; or how much growth the sampling could hide. The list below\n"
             "it has a row for each stack that has changed, those that grow first: the growth\n"
             "in bytes, its interval, bytes per second and the trend. The RSS at both ends is\n"
             "shown too; with --call also stats.allocated, and how much of it the samples\n"
             "cover. Memory that was allocated before sampling began has no stack. Like\n"
             "record, it makes no call where that is possible.\n"
             "\n"
             "With --reset the list starts from nothing: it shows what was allocated since and\n"
             "is still in use. That is not the net growth: older memory of the same stack may\n"
             "have been freed meanwhile.\n",
    .notes = "Ctrl-C ends it early, as it ends record: exit code 130.\n",
    .options =
        {
            {"duration", NULL, "how long to sample: 60s (default), 5m, 1h"},
            {"output", NULL,
             "also write the difference to this file; - writes it to stdout instead"},
            {"format", NULL,
             "format of the difference: text, tree, flame, pprof, folded, dot, svg, json"},
            {"rows", NULL, "show at most N rows of the table (default 10); 0: all, however small"},
        },
    .calls =
        {
            "mallctl version, config.prof, opt.prof, prof.active, ... (read)",
            "mallctl arenas.narenas, opt.narenas, arena.<each>.extent_hooks (read)",
            "with --reset: mallctl prof.lg_sample (read), prof.reset (drops all samples)",
            "mallctl prof.active=true (write, then read back), unless it is true",
            "mallctl epoch (write), stats.allocated, ..., arenas.nbins (read); mallctl prof.dump",
            "mallctl stats.arenas.4096.bins.<each>.curregs (read), at both ends",
            "while it waits: mallctl prof.dump from time to time, for 1 % of the time at most;",
            "then in one stop:",
            "mallctl prof.active (read); epoch (write), stats.allocated, ... (read)",
            "mallctl prof.dump, prof.active (the former value written), then read back",
            "with --settle, between them: mallctl prof.active=false (write, then read back)",
        },
    .run = leak_main,
};
