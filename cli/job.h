/* One verb at work on one process: its options, its attachment, and what is said of them. */
#pragma once

#include "cli/message.h"
#include "cli/options.h"
#include "run/attachment.h"
#include "run/sampling.h"

struct job {
    const struct options *options;
    const char *verb; /* before the pid: "dump the profile of process" */
    struct attachment *attachment;
    struct run_events events;
};

/* Prepares a job, which must not move from then on. */
void job_init(struct job *job, struct attachment *attachment, const struct options *options,
              const char *verb);
/* What the options ask of an attachment to pid. */
struct attach_request job_request(const struct job *job, pid_t pid);
/* For messages about the job. */
struct subject job_subject(const struct job *job);

/* job_init with attachment_open or attachment_look. job_finish in each case. */
fault_code job_open(struct job *job, struct attachment *attachment, const struct options *options,
                    pid_t pid, const char *verb, struct fault *fault);
fault_code job_look(struct job *job, struct attachment *attachment, const struct options *options,
                    pid_t pid, const char *verb, struct fault *fault);

/*
 * The end of a verb: prints the fault, if code is one or stdout takes no more,
 * and the closing lines, and closes the attachment. Returns the exit code.
 */
int job_finish(struct job *job, fault_code code, const struct fault *fault);
/*
 * The end of a verb that sampled: restores prof.active first, and prints what
 * became of it. Returns the exit code.
 */
int job_finish_sampling(struct job *job, struct sampling *sampling, fault_code rc,
                        struct fault *fault);

/* If there are several processes: prints which one the next lines are about. */
void job_print_head(const struct job *job);
/* --dry-run: prints which calls would be made, where and in which thread. calls ends with NULL. */
fault_code job_describe(const struct job *job, const char *const *calls, struct fault *fault);
