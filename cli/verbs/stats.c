/* jeattach stats */
#include "jemalloc/stats.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/usage.h"
#include "cli/verbs/bins.h"
#include "cli/verbs/core.h"
#include "cli/verbs/threads.h"
#include "cli/verbs/verbs.h"
#include "jemalloc/conf.h"
#include "run/account.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The report grows with arenas times size classes: some 40 MB with 4,095 arenas. */
#define REPORT_LIMIT ((size_t)256 << 20)

struct stats {
    const struct job *job;
    remote_addr message_at;
    struct sink sink;
};

/* ---- jemalloc's own report ---- */

static fault_code report_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct stats *stats = ctx;
    const struct stats_request request = {.options = stats->job->options->json ? "J" : "",
                                          .message_at = stats->message_at,
                                          .allow_slow = stats->job->options->allow & ALLOW_SLOW,
                                          .consent = &attachment->caller.hooks,
                                          .sink = &stats->sink};

    return stats_print(&attachment->caller.injection, &attachment->instance, &request, fault);
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

static fault_code perform_own_report(struct job *job, void *ctx, struct fault *fault)
{
    struct stats *stats = ctx;
    struct attachment *attachment = job->attachment;
    fault_code rc;

    stats->job = job;
    stats->message_at = variable_find(&attachment->instance, "malloc_message", &attachment->modules,
                                      &attachment->target, &attachment->memory);
    rc = caller_hold(attachment, report_held, stats, fault);
    return rc == FAULT_NONE ? print_report(stats, fault) : rc;
}

static int own_report_main(const struct options *options, pid_t pid)
{
    struct stats stats = {.message_at = 0};
    int code;

    sink_init(&stats.sink, REPORT_LIMIT);
    code = job_run(options, pid, JOB_AS_ASKED, "read the statistics of process", perform_own_report,
                   &stats);
    sink_free(&stats.sink);
    return code;
}

/* ---- where the memory is ---- */

static void print_account(const struct job *job, const struct account *account)
{
    struct attachment *attachment = job->attachment;
    const struct usage usage = {.account = account,
                                .pid = (int)attachment->target.pid,
                                .name = attachment->target.stat.comm,
                                .origin = job->origin};
    struct json json;

    if (job->options->json) {
        attachment_json_begin(attachment, &json);
        usage_json(&usage, &json);
        attachment_json(attachment, &json);
        json_end(&json);
    } else if (job->options->prometheus) {
        usage_print_metrics(&usage, stdout);
    } else {
        usage_print_table(&usage, stdout);
    }
}

/* Without a call it works on a process that is stopped, frozen or traced, too. */
static fault_code perform_account(struct job *job, void *ctx, struct fault *fault)
{
    struct account account;
    fault_code rc;

    (void)ctx;
    rc = account_read(&account, job->attachment, fault);
    if (rc == FAULT_NONE && !job->origin)
        rc = target_check(&job->attachment->target, fault);
    if (rc == FAULT_NONE)
        print_account(job, &account);
    return rc;
}

/* ---- the verb ---- */

static int stats_main(const struct options *options, pid_t pid)
{
    if (options->core)
        return core_run(options, "read the statistics in core file", perform_account, NULL);
    if (options->threads)
        return threads_main(options, pid);
    if (options->bins)
        return bins_main(options, pid);
    if (options->full)
        return own_report_main(options, pid);
    return job_run(options, pid, JOB_LOOKS, "read the statistics of process", perform_account,
                   NULL);
}

const struct verb verb_stats = {
    .name = "stats",
    .summary = "show where the memory is, by the counts of jemalloc and the kernel",
    .synopses = {"[options] PROCESS...", "--core FILE [--exe FILE] [--root DIR] [options]"},
    .examples = {{"jeattach stats 4242", "parts of the memory that add up to the RSS"},
                 {"jeattach stats 4242 --bins", "by the size of the objects"},
                 {"jeattach stats --all --prometheus", "metrics of all processes"}},
    .takes = TAKES_STATS | TAKES_HOOKS | TAKES_CORE | TAKES_WAY,
    .intro = "Shows where the memory of a process is, in rows that add up to the RSS: in use\n"
             "by the program, what sampling adds, free space in slabs and behind large\n"
             "objects, free pages, jemalloc's own data, other jemallocs, and memory outside\n"
             "jemalloc. Each is what of it is in memory; what jemalloc counts beyond that,\n"
             "never touched or swapped out, is the row absent. Shares are of the RSS.\n"
             "\n"
             "The counts are read from jemalloc's records in the memory of the process:\n"
             "nothing is called or stopped. Where these do not give all of them, a thread is\n"
             "stopped for a call. With --no-call it never is: counts that are missing are then\n"
             "shown as ?.\n"
             "This works on stopped, frozen and traced processes, too. With --core the counts\n"
             "are as of the core file.\n"
             "\n"
             "With --bins each size class is shown, the one with most live memory first. Its\n"
             "waste is the free space in its slabs: no purge returns it, and objects of\n"
             "other sizes cannot use it. Nonfull slabs have free space. They are read from the\n"
             "records (since 5.0); nothing is called or stopped.\n"
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
             "print what the table shows in JSON, with jemalloc's own names (stats_allocated, ...) "
             "and where the counts are from; with --full: jemalloc's own report in JSON, byte for "
             "byte as malloc_stats_print(\"J\") makes it (since 4.3)"},
            {"allow", NULL,
             "with --full. hooks: make the call even if functions of the application may run in "
             "it (extent hooks of its arenas); if one takes a lock that the stopped thread owns, "
             "both wait forever. slow: stop a thread for seconds, as jemalloc before 5.3 needs "
             "under a seccomp filter"},
            {"rows", NULL, "with --bins: show at most N rows (default 15); 0: all"},
            {"sort", NULL, "with --bins: live (default), waste or size"},
            {"prometheus", NULL,
             "print the rows as Prometheus metrics; with --bins: size classes, with the label "
             "size"},
            {"no-call", NULL,
             "make no call and stop nothing: counts that the records do not give are shown as ?"},
        },
    .run = stats_main,
};
