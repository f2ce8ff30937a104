/* What the verbs that take --core have in common. */
#pragma once

#include "cli/job.h"
#include "run/core_file.h"

/* Returns the request that the options describe. */
struct core_request core_request_of(const struct options *options, const struct run_events *events);

/*
 * Prints what the core file lacks: that it is truncated, and of which files the pages
 * are that were needed and not found. Prints nothing with -q.
 */
void core_print_lacks(const struct options *options, const struct core_file *file);

/*
 * Runs a verb on the core file: job_init, core_file_open, perform, core_print_lacks, job_finish.
 * Returns the exit code.
 */
int core_run(const struct options *options, const char *verb, job_perform perform, void *ctx);

/* jeattach dump --core. Returns the exit code. */
int core_dump_main(const struct options *options);
