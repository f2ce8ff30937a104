#include "cli/verbs/threads.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/thread_view.h"
#include "run/activating.h"

static void print_threads(const struct job *job, const struct tsd_threads *threads)
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

static fault_code perform_threads(struct job *job, void *ctx, struct fault *fault)
{
    struct thread_view *view = ctx;
    fault_code rc = thread_view_read(view, job->attachment, 0, fault);

    if (rc == FAULT_NONE)
        rc = target_check(&job->attachment->target, fault);
    if (rc != FAULT_NONE)
        return rc;
    thread_view_sort(&view->threads);
    print_threads(job, &view->threads);
    return FAULT_NONE;
}

int threads_main(const struct options *options, pid_t pid)
{
    struct thread_view view = {0};
    int code =
        job_run(options, pid, JOB_AS_ASKED, "read the threads of process", perform_threads, &view);

    thread_view_free(&view);
    return code;
}
