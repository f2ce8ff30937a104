/* The notes of a run in words, on stderr. */
#pragma once

#include "cli/job.h"

/* Of a job: ctx is the struct job. With -q no notes about the written profile. */
void notes_print(void *ctx, const struct run_note *note);
/* Of a profile without a process: ctx is the struct options. */
void notes_print_profile(void *ctx, const struct run_note *note);
