/* jeattach explain */
#include "run/explain/explain.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/explain_json.h"
#include "cli/output/explain_text.h"
#include "cli/verbs/core.h"
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
    if (explain->core)
        json_text(&json, "core", job->options->core);
    explain_json(explain, &subject, &json);
    json_end(&json);
}

static fault_code perform_explain(struct job *job, const struct fault *found, bool *interrupted,
                                  struct fault *fault)
{
    struct explain explain;
    fault_code rc;

    explain_init(&explain, job->attachment);
    explain.look_ns = job->options->duration_ns;
    rc = explain_read(&explain, found, fault);
    if (rc == FAULT_NONE)
        print_explained(job, &explain);
    *interrupted = explain.watch.leak.interrupted;
    explain_free(&explain);
    return rc;
}

/* Without jemalloc its mappings are what a longer look needs. */
static fault_code find_process(struct job *job, pid_t pid, struct fault *found)
{
    struct attachment *attachment = job->attachment;
    struct attach_request request = job_look_request(job, pid);
    struct fault ignored;

    request.way = WAY_MEMORY;
    found->code = attachment_find(attachment, &request, found);
    if (found->code == FAULT_NO_ALLOCATOR && job->options->duration_ns) {
        attachment_close(attachment);
        attachment_map(attachment, &request, &ignored);
    }
    return found->code;
}

/* ---- of a core file ---- */

/* A process without jemalloc had mappings, at least. */
static int explain_core(const struct options *options)
{
    struct attachment attachment = {.opened = false};
    struct core_file core = {.maps = NULL};
    struct fault found = {0}, fault = {0};
    struct explain explain;
    struct job job;
    fault_code rc;
    int code;

    job_init(&job, &attachment, options, "explain the memory in core file");
    const struct core_request request = core_request_of(options, &job.events);
    found.code = rc = core_file_open(&core, &attachment, &request, &found);
    if (rc == FAULT_NONE || rc == FAULT_NO_ALLOCATOR) {
        explain_init(&explain, &attachment);
        rc = explain_read_core(&explain, &core, &found, &fault);
        if (rc == FAULT_NONE)
            print_explained(&job, &explain);
        explain_free(&explain);
    } else {
        fault = found;
    }
    core_print_lacks(options, &core);
    code = job_finish(&job, rc, &fault);
    core_file_close(&core);
    return code;
}

/* ---- the verb ---- */

/* Without jemalloc, or without the right to look for it, there is still much to say. */
static int explain_main(const struct options *options, pid_t pid)
{
    struct fault found = {0}, fault = {0};
    struct attachment attachment;
    bool interrupted = false;
    struct job job;
    fault_code rc;
    int code;

    if (options->core)
        return explain_core(options);
    job_init(&job, &attachment, options, "explain the memory of process");
    rc = find_process(&job, pid, &found);
    if (attachment.opened && !fault_is_gone(rc) && rc != FAULT_NO_INSTANCE)
        rc = perform_explain(&job, &found, &interrupted, &fault);
    else
        fault = found;
    code = job_finish(&job, rc, &fault);
    return code == EXIT_DONE && interrupted ? EXIT_INTERRUPTED : code;
}

const struct verb verb_explain = {
    .name = "explain",
    .summary = "explain the memory of a process on one screen",
    .synopses = {"[options] PROCESS...", "--core FILE [--exe FILE] [--root DIR] [options]"},
    .examples = {{"jeattach 4242", "what fills the process, and what to do next"},
                 {"jeattach explain 4242 -d 60s", "also what grows, by a longer look"},
                 {"jeattach explain core.4242", "the same of a process that has died"}},
    .takes = TAKES_DURATION | TAKES_CORE | TAKES_ANY,
    .intro = "The first command for a process whose memory is in question: jeattach PID is\n"
             "the same. Shows on one screen the largest facts, what the memory consists of,\n"
             "its limit, what jemalloc counted and sampled, and the next command to type,\n"
             "with its reason.\n"
             "\n"
             "A limit that is 90 % used, or reached within ten minutes, comes first; then\n"
             "parts by their bytes: objects in use, free space between them, free pages,\n"
             "memory outside jemalloc. A growth comes after waste unless it adds more than\n"
             "that within a minute.\n"
             "\n"
             "Works on every process, also without jemalloc, stopped, frozen or traced, and\n"
             "without any right as far as /proc shows it. Nothing is called and nothing is\n"
             "stopped. It takes about a second, for which it watches the memory. With -d it\n"
             "watches longer, and adds what grows, but not which calls: leak names them.\n"
             "With --core it explains a process that has ended, from its core file.\n",
    .notes = "Growth is that of its own memory, anonymous or swapped: touched files and shared\n"
             "memory are none. Below 256 KiB it is too little to judge. Time left is the space\n"
             "below the limit divided by that rate, or by that of the cgroup if others grow.\n"
             "\n"
             "Memory in jemalloc is counted now, from the records of jemalloc 5.0 and later.\n"
             "What the RSS consists of is read from smaps, for which the process cannot change\n"
             "its mappings for some milliseconds; above 4 GiB it is not read.\n"
             "\n"
             "Ctrl-C ends the look of -d early, with a result: exit code 130.\n",
    .options = {{"duration", NULL, "also watch for so long what grows: 60s, 5m"}},
    .run = explain_main,
};
