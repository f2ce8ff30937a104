/* Prints the notes of a run to stderr. */
#pragma once

#include "cli/job.h"

/* Prints a note about a job; ctx is the struct job. -q suppresses notes about the profile. */
void notes_print(void *ctx, const struct run_note *note);
/* Prints a note about a profile without a process; ctx is the struct options. */
void notes_print_profile(void *ctx, const struct run_note *note);
