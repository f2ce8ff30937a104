/* jeattach explain */
#include "run/explain/explain.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/explain_json.h"
#include "cli/output/explain_text.h"
#include "cli/verbs/verbs.h"

#include <stdio.h>

static void print_explained(const struct job *job, const struct explain *explain)
{
    const struct subject subject = job_subject(job);
    struct json json;

    if (!job->options->json) {
        explain_print(explain, &subject, stdout);
        return;
    }
    attachment_json_begin(job->attachment, &json);
    explain_json(explain, &subject, &json);
    json_end(&json);
}

/* With and without jemalloc. */
static fault_code describe_reads(const struct job *job)
{
    job_print_head(job);
    printf("calls      none: /proc and memory are read for about a second\n");
    return FAULT_NONE;
}

static fault_code perform_explain(struct job *job, const struct fault *found, struct fault *fault)
{
    struct explain explain;
    fault_code rc;

    if (job->options->dry_run)
        return describe_reads(job);
    explain_init(&explain, job->attachment);
    rc = explain_read(&explain, found, fault);
    if (rc == FAULT_NONE)
        print_explained(job, &explain);
    explain_free(&explain);
    return rc;
}

/* Without jemalloc, or without the right to look for it, there is still much to say. */
static int explain_main(const struct options *options, pid_t pid)
{
    struct fault found = {0}, fault = {0};
    struct attachment attachment;
    struct attach_request request;
    struct job job;
    fault_code rc;

    job_init(&job, &attachment, options, "explain the memory of process");
    request = job_request(&job, pid);
    request.way = WAY_MEMORY;
    found.code = rc = attachment_find(&attachment, &request, &found);
    if (attachment.opened && !fault_is_gone(rc) && rc != FAULT_NO_INSTANCE)
        rc = perform_explain(&job, &found, &fault);
    else
        fault = found;
    return job_finish(&job, rc, &fault);
}

const struct verb verb_explain = {
    .name = "explain",
    .summary = "explain the memory of a process on one screen",
    .synopses = {"[options] PID..."},
    .intro = "The first command for a process whose memory is in question. Shows on one\n"
             "screen: how much it uses of its limit, whether it grows and when the limit is\n"
             "reached at this rate, what its RSS consists of, which allocator it has, what\n"
             "jemalloc counted and sampled, and the next command to type, with its reason.\n"
             "\n"
             "Works on every process, also without jemalloc, stopped, frozen or traced, and\n"
             "without any right as far as /proc shows it. Nothing is called and nothing is\n"
             "stopped. It takes about a second, for which it watches the RSS.\n",
    .notes = "Growth is reported only if its own memory, anonymous or swapped, rises by 256\n"
             "KiB or more within that second; a slower leak needs a longer look: jeattach\n"
             "leak, or watch. Time left is the space below the limit divided by the\n"
             "rate of that second.\n"
             "\n"
             "Objects in use are counted now, from the records of jemalloc 5.0 and later.\n"
             "Counts of free pages are those of the last call that counted, with their age;\n"
             "jeattach stats counts anew. What the RSS consists of is read from smaps, for\n"
             "which the process cannot change its mappings for some milliseconds; above 4 GiB\n"
             "it is not read.\n",
    .run = explain_main,
};
