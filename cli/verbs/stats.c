/* jeattach stats */
#include "jemalloc/stats.h"
#include "base/json_check.h"
#include "base/text.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/usage_aged.h"
#include "cli/verbs/bins.h"
#include "cli/verbs/core.h"
#include "cli/verbs/threads.h"
#include "cli/verbs/verbs.h"
#include "jemalloc/reader/gauges.h"
#include "jemalloc/variable.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The report grows with arenas times size classes: some 40 MB with 4,095 arenas. */
#define REPORT_LIMIT ((size_t)256 << 20)

struct stats {
    const struct job *job;
    remote_addr message_at;
    struct sink sink;
    struct build build;
    struct stats_gauges gauges;
};

static bool wants_report(const struct options *options)
{
    return options->json || options->full;
}

static fault_code stats_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct stats *stats = ctx;
    const struct stats_request request = {.options = stats->job->options->json ? "J" : "",
                                          .message_at = stats->message_at,
                                          .allow_slow = stats->job->options->allow_slow,
                                          .consent = &attachment->hooks,
                                          .sink = &stats->sink};

    if (!wants_report(stats->job->options))
        return stats_read(&attachment->injection, &attachment->instance, &stats->build,
                          &stats->gauges, fault);
    return stats_print(&attachment->injection, &attachment->instance, &request, fault);
}

/*
 * Prints the report exactly as jemalloc wrote it, preceded by the process if
 * there are several. Control characters do not reach a terminal, and invalid
 * JSON is a fault. stdout is flushed by stdout_check.
 */
static fault_code print_report(const struct stats *stats, struct fault *fault)
{
    const struct attachment *attachment = stats->job->attachment;
    const char *text = (const char *)stats->sink.bytes;
    size_t len = stats->sink.len;
    bool member = stats->job->options->json && stats->job->options->pid_count > 1;
    struct json json;

    if (stats->job->options->json && !json_valid(text, len))
        return fault_set(fault, FAULT_STATS_NO_JSON, 0, "malloc_stats_print", "%zu bytes", len);
    if (member) {
        attachment_json_begin(attachment, &json);
        json_raw(&json, "stats", text, len);
        json_end(&json);
    } else {
        job_print_head(stats->job);
        text_write_lines(stdout, text, len);
    }
    return FAULT_NONE;
}

static fault_code print_gauges(const struct stats *stats, struct fault *fault)
{
    const struct attachment *attachment = stats->job->attachment;
    struct usage usage = {.build = &stats->build,
                          .gauges = &stats->gauges,
                          .pid = (int)attachment->target.pid,
                          .name = attachment->target.stat.comm};
    fault_code rc = target_usage(&attachment->target, &usage.process, &usage.source, fault);

    if (rc != FAULT_NONE)
        return rc;
    if (stats->job->options->prometheus)
        usage_print_metrics(&usage, stdout);
    else
        usage_print_table(&usage, stdout);
    return FAULT_NONE;
}

static fault_code perform_stats(struct job *job, void *ctx, struct fault *fault)
{
    struct stats *stats = ctx;
    struct attachment *attachment = job->attachment;
    fault_code rc;

    stats->job = job;
    if (job->options->dry_run)
        return job_describe(job, verb_stats.calls, fault);
    if (wants_report(job->options))
        stats->message_at =
            variable_find(&attachment->instance, "malloc_message", &attachment->modules,
                          &attachment->target, &attachment->memory);
    attachment->work = wants_report(job->options) ? WORK_REFRESH | WORK_REPORT : WORK_REFRESH;
    rc = attachment_hold(attachment, stats_held, stats, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (!wants_report(job->options))
        return print_gauges(stats, fault);
    return print_report(stats, fault);
}

/* ---- without a call ---- */

/* A second search, for the version, takes less than a millisecond. */
static void read_gauges_memory(const struct attachment *attachment, struct memory *memory,
                               struct prof_state *state, struct gauges_reading *reading)
{
    const struct reader_source source = {.instance = &attachment->instance,
                                         .modules = &attachment->modules,
                                         .target = &attachment->target,
                                         .memory = memory};
    struct gauges_memory places;
    struct fact_variables variables;

    facts_locate(&variables, source.instance, source.modules, source.target, source.memory);
    facts_read(&variables, source.memory, state);
    gauges_locate(&places, &source);
    gauges_read(&places, reading);
}

static struct usage_aged describe_aged(const struct attachment *attachment,
                                       const struct prof_state *state,
                                       const struct gauges_reading *reading)
{
    return (struct usage_aged){.usage = {.build = &state->build,
                                         .gauges = &reading->gauges,
                                         .pid = (int)attachment->target.pid,
                                         .name = attachment->target.stat.comm},
                               .reading = reading};
}

static void print_aged(const struct job *job, const struct usage_aged *aged)
{
    struct json json;

    if (job->options->json) {
        attachment_json_begin(job->attachment, &json);
        usage_aged_json(aged, &json);
        json_end(&json);
    } else if (job->options->prometheus) {
        usage_aged_metrics(aged, stdout);
    } else {
        usage_aged_print(aged, stdout);
    }
}

static fault_code perform_no_call(struct job *job, struct fault *fault)
{
    struct attachment *attachment = job->attachment;
    struct prof_state state;
    struct gauges_reading reading;
    struct usage_aged aged;
    fault_code rc;

    read_gauges_memory(attachment, &attachment->memory, &state, &reading);
    aged = describe_aged(attachment, &state, &reading);
    rc = target_usage(&attachment->target, &aged.usage.process, &aged.usage.source, fault);
    if (rc == FAULT_NONE)
        rc = target_check(&attachment->target, fault);
    if (rc == FAULT_NONE)
        print_aged(job, &aged);
    return rc;
}

/* It works on a process that is stopped, frozen or traced: nothing in it has to run. */
static int stats_no_call(const struct options *options, pid_t pid)
{
    struct attachment attachment;
    struct attach_request request;
    struct job job;
    struct fault fault;
    fault_code rc;

    job_init(&job, &attachment, options, "read the statistics of process");
    request = job_request(&job, pid);
    rc = attachment_find(&attachment, &request, &fault);
    if (rc == FAULT_NONE)
        rc = perform_no_call(&job, &fault);
    return job_finish(&job, rc, &fault);
}

/* ---- of a core file ---- */

static void print_core(struct job *job, const struct core_file *core)
{
    struct attachment *attachment = job->attachment;
    struct prof_state state;
    struct gauges_reading reading;
    struct usage_aged aged;
    char origin[96];

    read_gauges_memory(attachment, &attachment->memory, &state, &reading);
    aged = describe_aged(attachment, &state, &reading);
    core_describe(core, origin, sizeof origin);
    aged.origin = origin;
    aged.ended = true;
    print_aged(job, &aged);
}

static int stats_of_core(const struct options *options)
{
    struct attachment attachment = {.planned = false};
    struct core_file core = {.maps = NULL};
    struct job job;
    struct fault fault;
    int code;

    job_init(&job, &attachment, options, "read the statistics in core file");
    const struct core_request request = core_request_of(options, &job.events);
    fault_code rc = core_file_open(&core, &attachment, &request, &fault);
    if (rc == FAULT_NONE)
        print_core(&job, &core);
    core_print_lacks(options, &core);
    code = job_finish(&job, rc, &fault);
    core_file_close(&core);
    return code;
}

/* ---- the verb ---- */

static int stats_by_call(const struct options *options, pid_t pid)
{
    struct stats stats = {.message_at = 0};
    struct attachment attachment;
    struct attach_request request;
    struct job job;
    struct fault fault;
    int code;

    sink_init(&stats.sink, REPORT_LIMIT);
    job_init(&job, &attachment, options, "read the statistics of process");
    job.instead = options->full ? NULL : "use --no-call, which shows the gauges in memory";
    request = job_request(&job, pid);
    fault_code rc = attachment_open(&attachment, &request, &fault);
    if (rc == FAULT_NONE)
        rc = perform_stats(&job, &stats, &fault);
    code = job_finish(&job, rc, &fault);
    sink_free(&stats.sink);
    return code;
}

static int stats_main(const struct options *options, pid_t pid)
{
    if (options->core)
        return stats_of_core(options);
    if (options->threads)
        return threads_main(options, pid);
    if (options->bins || options->arenas)
        return bins_main(options, pid);
    return options->no_call ? stats_no_call(options, pid) : stats_by_call(options, pid);
}

const struct verb verb_stats = {
    .name = "stats",
    .summary = "show where the memory is, by the counts of jemalloc and the kernel",
    .synopses = {"[options] PID...", "--core FILE [--exe FILE] [--root DIR] [options]"},
    .takes = TAKES_STATS | TAKES_HOOKS | TAKES_CORE | TAKES_NO_CALL,
    .intro = "Shows jemalloc's counts beside those of the kernel, in rows that add up to the\n"
             "RSS: in use, fragmentation, dirty pages, metadata, and memory outside jemalloc.\n"
             "\n"
             "With --no-call the gauges are read from the memory of the process: those of the\n"
             "last write of epoch, by the program or by a tool, with their age. This works on\n"
             "stopped, frozen and traced processes, too. With --core they are read from the\n"
             "core file of a process that has ended.\n"
             "\n"
             "With --bins each size class is shown, the one with most live memory first. Its\n"
             "waste is the free space in its slabs: no purge returns it, and objects of other\n"
             "sizes cannot use it. Nonfull slabs have free space (since 5.2.1). With --arenas\n"
             "each arena is shown; with both, also the size classes of each. A thread is\n"
             "stopped for some milliseconds; with --no-call none is, and requests are unknown\n"
             "(since 5.0, without --arenas). Requests are counted when a thread fills or\n"
             "flushes its cache, so those served from the cache are counted late.\n"
             "\n"
             "With --threads each thread is shown, the one that keeps most memory first: KEPT\n"
             "is what it has allocated less what it has freed, of its own or of other threads.\n"
             "Nothing is called or stopped; unknown values are shown as ?. The words of\n"
             "SAMPLING, which hold while prof.active is true:\n"
             "\n"
             "  samples     its allocations are sampled\n"
             "  fresh       it has not allocated yet, and samples from then on\n"
             "  asleep      it does not sample, because it allocated while profiling was not\n"
             "              active (jemalloc 5.2); jeattach on makes it sample\n"
             "  off         thread.prof.active is false in it; jeattach on --repair changes it\n"
             "  background  a thread of jemalloc itself, which never samples\n",
    .options =
        {
            {"json", NULL,
             "print jemalloc's own report in JSON, byte for byte as malloc_stats_print(\"J\") "
             "makes it (since 4.3); with --no-call: the gauges and their age; with --threads, "
             "--bins "
             "and --arenas: what they show"},
            {"duration", NULL,
             "with --bins: look twice, D apart, and show the requests of that time; default: one "
             "look, and the average since the start"},
            {"rows", NULL, "with --bins and --arenas: show at most N rows (default 15); 0: all"},
            {"sort", NULL, "with --bins: live (default), waste, requests or size"},
            {"prometheus", NULL,
             "print the rows as Prometheus metrics; with --bins and --arenas: size classes and "
             "arenas, with the labels size and arena"},
            {"no-call", NULL,
             "make no call and stop nothing: show the gauges that are in memory, and their age; "
             "with "
             "--bins: the size classes, as of now"},
        },
    .calls =
        {
            "mallctl epoch (write), stats.allocated, stats.active, ... (read)",
            "with --bins and --arenas also mallctl arenas.bin.<i>.*, stats.arenas.<i>.* (read)",
            "or, with --json and --full: mallctl arena.0.extent_hooks (read), malloc_stats_print",
        },
    .run = stats_main,
};
