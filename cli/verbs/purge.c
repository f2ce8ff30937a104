/* jeattach purge */
#include "jemalloc/purge.h"
#include "base/units.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/verbs/verbs.h"

#include <stdio.h>

struct purge {
    struct purge_result result;
    uint64_t rss_before, rss_after; /* VmRSS in bytes; 0: unreadable */
};

static void print_purge_json(const struct attachment *attachment, const struct purge *purge)
{
    struct json json;

    attachment_json_begin(attachment, &json);
    if (purge->result.measured) {
        json_number(&json, "resident_before", purge->result.resident_before);
        json_number(&json, "resident_after", purge->result.resident_after);
    } else {
        json_null(&json, "resident_before");
        json_null(&json, "resident_after");
    }
    json_number(&json, "rss_before", purge->rss_before);
    json_number(&json, "rss_after", purge->rss_after);
    attachment_json(attachment, &json);
    json_end(&json);
}

static void print_purge_row(const char *name, uint64_t before, uint64_t after, const char *what)
{
    char from[UNITS_TEXT], to[UNITS_TEXT];

    printf("%s: %llu -> %llu bytes (%s -> %s), %s\n", name, (unsigned long long)before,
           (unsigned long long)after, units_bytes((double)before, from),
           units_bytes((double)after, to), what);
}

static void print_purge_text(const struct job *job, const struct purge *purge)
{
    job_print_head(job);
    if (purge->result.measured)
        print_purge_row("resident", purge->result.resident_before, purge->result.resident_after,
                        "of jemalloc (stats.resident)");
    else
        printf("resident: not known, this jemalloc was built without statistics\n");
    print_purge_row("rss", purge->rss_before, purge->rss_after, "of the process");
}

static fault_code purge_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct purge *purge = ctx;

    return purge_run(&attachment->injection, &attachment->instance, &attachment->hooks,
                     &purge->result, fault);
}

static fault_code perform_purge(struct job *job, void *ctx, struct fault *fault)
{
    struct purge *purge = ctx;
    fault_code rc;

    if (job->options->dry_run)
        return job_describe(job, verb_purge.calls, fault);
    purge->rss_before = target_rss(&job->attachment->target);
    rc = attachment_hold(job->attachment, purge_held, purge, fault);
    if (rc != FAULT_NONE)
        return rc;
    purge->rss_after = target_rss(&job->attachment->target);
    if (job->options->json)
        print_purge_json(job->attachment, purge);
    else
        print_purge_text(job, purge);
    return FAULT_NONE;
}

static int purge_main(const struct options *options, pid_t pid)
{
    struct purge purge = {0};

    return job_run(options, pid, "purge the arenas of process", perform_purge, &purge);
}

const struct verb verb_purge = {
    .name = "purge",
    .summary = "return unused memory from jemalloc to the kernel",
    .synopses = {"[options] PID..."},
    .takes = TAKES_HOOKS,
    .intro = "Makes jemalloc return the unused pages of all arenas to the kernel\n"
             "(arena.<i>.purge); prints the resident memory of jemalloc and of the process\n"
             "before and after. Memory in use is not touched. One thread is stopped until it\n"
             "is done: the more memory there is to return, the longer.\n",
    .calls =
        {
            "mallctl arenas.narenas, opt.narenas, arena.<each>.extent_hooks (read)",
            "mallctl epoch, stats.resident, arena.<each>.purge, epoch, stats.resident",
        },
    .run = purge_main,
};
