/* A verb that runs on one process: its options, its attachment and its messages. */
#pragma once

#include "cli/message.h"
#include "cli/options.h"
#include "run/attachment.h"
#include "run/sampling.h"

struct job {
    const struct options *options;
    const char *verb;    /* before the pid: "dump the profile of process" */
    const char *instead; /* what needs no call (message.h); NULL: other verbs */
    const char *origin;  /* of a core file: " (core file, signal 6, Aborted)"; NULL: it runs */
    bool keeps_samples;  /* what the verb has sampled can still be dumped after it */
    struct attachment *attachment;
    struct run_events events;
};

/* Prepares a job. Its address must not change afterwards. */
void job_init(struct job *job, struct attachment *attachment, const struct options *options,
              const char *verb);
/* Returns the request to attach to pid that the options describe. */
struct attach_request job_request(const struct job *job, pid_t pid);
/*
 * The same for a verb that looks: a call only stands in for memory, also with --thread, which names
 * the thread that it may stop.
 */
struct attach_request job_look_request(const struct job *job, pid_t pid);
/* Writes the process as message_process does. Returns out. */
const char *job_process(const struct job *job, char out[PROCESS_TEXT]);
/* Returns the subject of messages about the job. */
struct subject job_subject(const struct job *job);

/* job_init, then access_open. Call job_finish even after a failure. */
fault_code job_open_profile(struct job *job, struct attachment *attachment,
                            const struct options *options, pid_t pid, const char *verb,
                            struct fault *fault);

/*
 * Ends a verb: prints the fault, if code is one or stdout cannot be written,
 * and the closing lines, and closes the attachment. Returns the exit code.
 */
int job_finish(struct job *job, fault_code code, const struct fault *fault);

enum job_way {
    JOB_AS_ASKED, /* job_request */
    JOB_LOOKS,    /* job_look_request */
    JOB_READS,    /* the same, and never calls */
};

typedef fault_code (*job_perform)(struct job *job, void *ctx, struct fault *fault);

/* Runs a verb on one process: job_init, attachment_find, perform, job_finish. Returns the exit
 * code. */
int job_run(const struct options *options, pid_t pid, enum job_way way, const char *verb,
            job_perform perform, void *ctx);
/*
 * Ends a verb that sampled: first restores prof.active and prints the result of
 * that. Returns the exit code.
 */
int job_finish_sampling(struct job *job, struct sampling *sampling, fault_code rc,
                        struct fault *fault);

/* With several processes: prints a line that names the process of the next lines. */
void job_print_head(const struct job *job);
