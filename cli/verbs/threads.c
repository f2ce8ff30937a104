#include "cli/verbs/threads.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/thread_view.h"
#include "run/thread_view.h"

static void print_thread_rows(const struct job *job, const struct tsd_threads *threads)
{
    struct json json;

    if (job->options->json) {
        attachment_json_begin(job->attachment, &json);
        thread_counts_json(threads->by_sampling, &json);
        thread_view_json(threads, &json);
        json_end(&json);
        return;
    }
    job_print_head(job);
    thread_view_print(threads, stdout);
    if (threads->unknown_why && !job->options->quiet)
        message("whether %zu of %zu threads sample is not known: %s",
                threads->by_sampling[THREAD_UNKNOWN], thread_counts_total(threads->by_sampling),
                threads->unknown_why);
}

static fault_code perform_threads(struct job *job, struct fault *fault)
{
    struct thread_view view;
    fault_code rc;

    rc = thread_view_read(&view, job->attachment, 0, fault);
    if (rc == FAULT_NONE)
        rc = target_check(&job->attachment->target, fault);
    if (rc == FAULT_NONE) {
        thread_view_sort(&view.threads);
        print_thread_rows(job, &view.threads);
    }
    thread_view_free(&view);
    return rc;
}

int threads_main(const struct options *options, pid_t pid)
{
    struct attachment attachment;
    struct attach_request request;
    struct job job;
    struct fault fault;
    fault_code rc;

    job_init(&job, &attachment, options, "read the threads of process");
    request = job_request(&job, pid);
    rc = attachment_find(&attachment, &request, &fault);
    if (rc == FAULT_NONE)
        rc = perform_threads(&job, &fault);
    return job_finish(&job, rc, &fault);
}
