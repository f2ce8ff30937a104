#include "cli/verbs/threads.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/thread_view.h"
#include "run/activating.h"

int threads_main(const struct options *options, pid_t pid)
{
    struct attachment attachment;
    struct attach_request request;
    struct thread_view view = {0};
    const struct tsd_threads *threads = &view.threads;
    struct job job;
    struct json json;
    struct fault fault;
    fault_code rc;

    job_init(&job, &attachment, options, "read the threads of process");
    request = job_request(&job, pid);
    rc = attachment_find(&attachment, &request, &fault);
    if (rc == FAULT_NONE)
        rc = thread_view_read(&view, &attachment, 0, &fault);
    if (rc == FAULT_NONE)
        rc = target_check(&attachment.target, &fault);
    if (rc == FAULT_NONE) {
        thread_view_sort(&view.threads);
        if (options->json) {
            attachment_json_begin(&attachment, &json);
            thread_counts_json(threads->by_sampling, &json);
            thread_view_json(threads, &json);
            json_end(&json);
        } else {
            job_print_head(&job);
            thread_view_print(threads, stdout);
            if (threads->unknown_why && !options->quiet)
                message("whether %zu of %zu threads sample is not known: %s",
                        threads->by_sampling[THREAD_UNKNOWN],
                        thread_counts_total(threads->by_sampling), threads->unknown_why);
        }
    }
    thread_view_free(&view);
    return job_finish(&job, rc, &fault);
}
