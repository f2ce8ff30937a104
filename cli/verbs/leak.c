/* jeattach leak */
#include "base/units.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/presentation.h"
#include "cli/verbs/verbs.h"
#include "jemalloc/stats.h"
#include "profile/growth.h"
#include "run/capture.h"
#include "run/interrupt.h"
#include "run/sampling.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_NS (60ull * 1000000000)

/* One of the two ends: a profile, and what jemalloc counted in the same stop. */
struct end {
    struct capture capture;
    struct stats_gauges gauges;
    bool counted;   /* gauges; not without config.stats */
    double sampled; /* bytes that the profile stands for */
    double own;     /* bytes of gauges.allocated that are there because of the sampling */
    uint64_t at_ns; /* CLOCK_MONOTONIC */
};

struct leak {
    struct attachment attachment;
    struct job job;
    struct presentation presentation;
    struct sampling sampling;
    struct output output;
    const struct options *options;
    struct end before, after;
};

static bool to_stdout(const struct leak *leak)
{
    return leak->options->output && strcmp(leak->options->output, "-") == 0;
}

/* ---- in a hold ---- */

static fault_code count(struct attachment *attachment, struct end *end, struct fault *fault)
{
    struct build build;
    fault_code rc =
        stats_read(&attachment->injection, &attachment->instance, &build, &end->gauges, fault);

    end->at_ns = clock_now();
    end->counted = rc == FAULT_NONE;
    return rc == FAULT_STATS_ABSENT ? FAULT_NONE : rc;
}

static fault_code begin_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct leak *leak = ctx;
    fault_code rc = sampling_begin(attachment, &leak->sampling, fault);

    return rc == FAULT_NONE ? count(attachment, &leak->before, fault) : rc;
}

static fault_code stop_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct leak *leak = ctx;

    return sampling_stop(attachment, &leak->sampling, fault);
}

static fault_code end_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct leak *leak = ctx;
    fault_code rc = sampling_end(attachment, &leak->sampling, fault);

    return rc == FAULT_NONE ? count(attachment, &leak->after, fault) : rc;
}

/* ---- the two ends ---- */

static fault_code take_first(struct leak *leak, struct fault *fault)
{
    fault_code rc = capture_take(&leak->attachment, &leak->before.capture, begin_held, leak, fault);

    return sampling_begun(&leak->attachment, &leak->sampling, rc, fault);
}

static fault_code wait_for(struct leak *leak, enum run_activity activity, uint64_t until,
                           struct fault *fault)
{
    if (sampling_wait(&leak->attachment, &leak->sampling, activity, until) == PAUSE_ENDED)
        return sampling_lost(&leak->attachment, fault);
    return FAULT_NONE;
}

/* Without sampling: what lives but a short time is freed, what leaks stays. */
static fault_code settle(struct leak *leak, struct fault *fault)
{
    fault_code rc = sampling_hold(&leak->attachment, &leak->sampling, NULL, stop_held, leak, fault);

    if (rc == FAULT_NONE)
        rc = wait_for(leak, RUN_SETTLING, clock_now() + leak->options->settle_ns, fault);
    return rc;
}

static fault_code take_second(struct leak *leak, struct fault *fault)
{
    fault_code rc = sampling_hold(&leak->attachment, &leak->sampling, &leak->after.capture,
                                  end_held, leak, fault);

    if (rc == FAULT_NONE)
        interrupt_patience(to_stdout(leak) ? 0 : 2, NULL);
    return rc;
}

static fault_code take_both(struct leak *leak, struct fault *fault)
{
    const struct options *options = leak->options;
    uint64_t duration = options->duration_ns ? options->duration_ns : DEFAULT_NS;
    fault_code rc = take_first(leak, fault);

    if (rc == FAULT_NONE)
        rc = wait_for(leak, RUN_RECORDING, leak->sampling.began + duration, fault);
    if (rc == FAULT_NONE && options->settle_ns && !leak->sampling.interrupted)
        rc = settle(leak, fault);
    return rc == FAULT_NONE ? take_second(leak, fault) : rc;
}

/* ---- what comes of it ---- */

/*
 * Up to 5.3.0 a sampled object that is smaller gets the smallest size of the
 * large ones, and stats.allocated counts that (5.3.0 jemalloc.c,
 * imalloc_sample; arena.c, arena_prof_promote).
 */
enum { PROMOTED = 16384 };

static double own_bytes(const struct leak *leak, const struct heap_counts *counts)
{
    double promoted = (double)counts->objects * PROMOTED;

    if (!version_within(leak->sampling.former.build.version, VERSION_NUMBER(4, 0, 0),
                        VERSION_NUMBER(5, 3, 0)))
        return 0;
    return promoted > (double)counts->bytes ? promoted - (double)counts->bytes : 0;
}

/* What the samples of a profile stand for, and what they take. */
static fault_code estimate(const struct leak *leak, struct end *end, struct fault *fault)
{
    struct heap_profile profile;
    fault_code rc =
        heap_parse(&profile, (const char *)end->capture.text.bytes, end->capture.text.len, fault);

    for (size_t i = 0; rc == FAULT_NONE && i < profile.line_count; i++) {
        const struct heap_counts *counts = &profile.lines[i].counts;
        end->sampled += heap_estimate(&profile, counts->objects, counts->bytes).bytes;
        end->own += own_bytes(leak, counts);
    }
    heap_free(&profile);
    return rc;
}

static double seconds_of(const struct leak *leak)
{
    return (double)sampling_ns(&leak->sampling) / 1e9;
}

/* What the program itself has allocated at the end. */
static double covered_whole(const struct leak *leak)
{
    double allocated = (double)leak->after.gauges.allocated - leak->after.own;

    return allocated > 0 ? allocated : 0;
}

/* What the profile knows of that, in percent. */
static double covered_percent(const struct leak *leak)
{
    double allocated = covered_whole(leak);
    double share = allocated > 0 ? 100 * leak->after.sampled / allocated : 100;

    return share > 100 ? 100 : share;
}

static void print_counted(const struct leak *leak)
{
    const struct stats_gauges *before = &leak->before.gauges, *after = &leak->after.gauges;
    double grown = (double)after->allocated - (double)before->allocated;
    uint64_t took_ns = leak->after.at_ns - leak->before.at_ns;
    char from[UNITS_TEXT], to[UNITS_TEXT], change[UNITS_TEXT], took[UNITS_TEXT], rate[UNITS_TEXT];

    if (!leak->before.counted || !leak->after.counted) {
        printf("stats.allocated is not known: this jemalloc was built without statistics\n");
        return;
    }
    printf("stats.allocated: %s -> %s, %s in %s, %s\n",
           units_bytes((double)before->allocated, from), units_bytes((double)after->allocated, to),
           units_change(grown, change), units_duration(took_ns, took),
           units_rate(grown / ((double)took_ns / 1e9), rate));
    if (leak->after.own > leak->before.own)
        printf("  of it %s are there because of the sampling: a sampled object takes 16 KiB at "
               "least\n",
               units_change(leak->after.own - leak->before.own, change));
}

/* What was there before sampling began has no stack, and cannot have one any more. */
static void print_coverage(const struct leak *leak)
{
    char sampled[UNITS_TEXT], of[UNITS_TEXT];

    units_bytes(leak->after.sampled, sampled);
    if (leak->after.counted)
        printf("covered: the samples stand for %s, %.1f %% of %s; ", sampled, covered_percent(leak),
               units_bytes(covered_whole(leak), of));
    else
        printf("covered: the samples stand for %s; ", sampled);
    printf("what was allocated before sampling began is not covered\n");
}

static void print_sum(const struct leak *leak, const struct growth *growth,
                      const struct display *display)
{
    char grown[DISPLAY_NUMBER_SIZE], shrunk[DISPLAY_NUMBER_SIZE], error[DISPLAY_NUMBER_SIZE],
        time[UNITS_TEXT];

    printf("sampled for %s: grown by %s, shrunk by %s, error of the sum about %s\n",
           units_duration(sampling_ns(&leak->sampling), time),
           display_bytes(display, (double)growth->grown, grown),
           display_bytes(display, (double)-growth->shrunk, shrunk),
           display_bytes(display, growth->error, error));
}

static bool print_table(const struct samples *samples, const struct display *display, void *ctx)
{
    const struct leak *leak = ctx;
    struct growth growth;
    struct display own = *display;
    char clean[64];

    if (!growth_make(&growth, samples, seconds_of(leak)))
        return false;
    own.colors = isatty(STDOUT_FILENO);
    printf("%s[%d]\n", message_clean(leak->attachment.target.stat.comm, clean, sizeof clean),
           (int)leak->attachment.target.pid);
    print_counted(leak);
    print_coverage(leak);
    print_sum(leak, &growth, &own);
    growth_write(&growth, samples, &own, stdout);
    fflush(stdout); /* messages come after it */
    growth_free(&growth);
    return true;
}

static void json_row(struct json *json, const struct samples *samples, const struct growth_row *row)
{
    struct growth_call at = {0, 0};
    const struct function *function;
    unsigned line;

    json_signed(json, "bytes", row->bytes);
    json_signed(json, "objects", row->objects);
    json_rounded(json, "error", trunc(row->error));
    json_rounded(json, "bytes_per_s", trunc(row->bytes_per_s));
    json_bool(json, "within_error", row->within);
    json_list_begin(json, "stack");
    while (growth_next_call(samples, row, &at, &function, &line)) {
        json_item_begin(json);
        json_text(json, "function", function->name);
        json_text_or_null(json, "file", function->file);
        json_number(json, "line", line);
        json_item_end(json);
    }
    json_list_end(json);
}

static void json_ends(const struct leak *leak, struct json *json)
{
    if (leak->before.counted && leak->after.counted) {
        json_number(json, "allocated_before", leak->before.gauges.allocated);
        json_number(json, "allocated_after", leak->after.gauges.allocated);
        json_number(json, "sampling_before", (uint64_t)leak->before.own);
        json_number(json, "sampling_after", (uint64_t)leak->after.own);
        json_number(json, "covered_percent", (uint64_t)covered_percent(leak));
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

static bool print_json(const struct samples *samples, const struct display *display, void *ctx)
{
    const struct leak *leak = ctx;
    const struct attachment *attachment = &leak->attachment;
    struct growth growth;
    struct json json;

    if (!growth_make(&growth, samples, seconds_of(leak)))
        return false;
    attachment_json_begin(attachment, &json);
    sampling_json(&leak->sampling, &json);
    json_ends(leak, &json);
    json_signed(&json, "grown", growth.grown);
    json_signed(&json, "shrunk", growth.shrunk);
    json_rounded(&json, "error", trunc(growth.error));
    json_text_or_null(&json, "path", leak->options->output);
    json_list_begin(&json, "rows");
    for (size_t i = 0; i < growth_shown(&growth, display); i++) {
        json_item_begin(&json);
        json_row(&json, samples, &growth.rows[i]);
        json_item_end(&json);
    }
    json_list_end(&json);
    json_number(&json, "holds", attachment->holds);
    json_number(&json, "longest_held_ns", attachment->longest_ns);
    attachment_json(attachment, &json);
    json_end(&json);
    growth_free(&growth);
    return true;
}

static fault_code show(struct leak *leak, struct fault *fault)
{
    const struct options *options = leak->options;
    fault_code rc = estimate(leak, &leak->before, fault);

    if (rc == FAULT_NONE)
        rc = estimate(leak, &leak->after, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (!to_stdout(leak))
        leak->presentation.also = options->json ? print_json : print_table;
    leak->presentation.also_ctx = leak;
    leak->presentation.events = &leak->job.events;
    return capture_write(&leak->attachment, &leak->presentation, &leak->after.capture,
                         &leak->before.capture, options->output ? &leak->output : NULL, fault);
}

static fault_code run(struct leak *leak, struct fault *fault)
{
    const struct options *options = leak->options;
    fault_code rc = FAULT_NONE;

    if (options->dry_run)
        return job_describe(&leak->job, verb_leak.calls, fault);
    if (options->output)
        rc = output_open_new(&leak->output, options->output, false, fault);
    if (rc == FAULT_NONE)
        rc = take_both(leak, fault);
    return rc == FAULT_NONE ? show(leak, fault) : rc;
}

/* A difference has no form of jemalloc's own. */
static bool prepare(struct leak *leak, const struct options *options)
{
    enum format format;

    leak->options = options;
    capture_init(&leak->before.capture);
    capture_init(&leak->after.capture);
    if (!presentation_init(&leak->presentation, options, FORMAT_TEXT))
        return false;
    format = leak->presentation.format;
    if (format != FORMAT_RAW && format != FORMAT_SYMBOLIZED)
        return true;
    message("the formats raw and symbolized cannot contain the difference of two profiles: "
            "choose another format (-f)");
    return false;
}

static void release(struct leak *leak)
{
    output_close(&leak->output);
    presentation_free(&leak->presentation);
    capture_free(&leak->before.capture);
    capture_free(&leak->after.capture);
}

static int leak_main(const struct options *options, pid_t pid)
{
    struct leak leak = {.output.fd = -1};
    struct fault fault;
    fault_code rc;
    int code = EXIT_USAGE;

    if (prepare(&leak, options)) {
        rc = job_open(&leak.job, &leak.attachment, options, pid, "look for leaks in process",
                      &fault);
        if (rc == FAULT_NONE)
            rc = run(&leak, &fault);
        code = job_finish_sampling(&leak.job, &leak.sampling, rc, &fault);
    }
    release(&leak);
    return code;
}

const struct verb verb_leak = {
    .name = "leak",
    .summary = "show what grows, by stack, the largest growth first",
    .synopses = {"[options] PID..."},
    .takes = TAKES_OUTPUT | TAKES_FORMAT | TAKES_DURATION | TAKES_SETTLE | TAKES_HOOKS,
    .intro = "Takes a profile, samples for a while, takes another, and restores the former\n"
             "value of prof.active. Shows what has grown, by stack, the largest growth first:\n"
             "bytes, twice the standard deviation of the sampling, objects and bytes per\n"
             "second, beside stats.allocated at both ends. Memory that was allocated before\n"
             "sampling began has no stack: the output says how much of all allocated memory\n"
             "the samples cover.\n",
    .notes = "Ctrl-C ends it early, as it ends record: exit code 130.\n",
    .options =
        {
            {"duration", NULL, "how long to sample: 60s (default), 5m, 1h"},
            {"output", NULL,
             "also write the difference to this file; - writes it to stdout instead. Existing "
             "files are never overwritten"},
            {"format", NULL,
             "format of the difference: text, flame, pprof, folded, dot, svg, json"},
            {"rows", NULL, "show at most N rows of the table (default 10); 0: all, however small"},
        },
    .calls =
        {
            "mallctl version, config.prof, opt.prof, prof.active, ... (read)",
            "mallctl arenas.narenas, opt.narenas, arena.<each>.extent_hooks (read)",
            "mallctl prof.active=true (write, then read back), unless it is true",
            "mallctl epoch (write), stats.allocated, ... (read); mallctl prof.dump",
            "no call while it waits; then in one stop:",
            "mallctl prof.active (read; the former value written and read back)",
            "mallctl epoch (write), stats.allocated, ... (read); mallctl prof.dump",
            "with --settle, between them: mallctl prof.active=false (write, then read back)",
        },
    .run = leak_main,
};
