/* The verdict of status on a state of profiling, and the next step. */
#pragma once

#include "jemalloc/conf.h"
#include "jemalloc/prof.h"

/* "disabled", for JSON; NULL if unknown. */
const char *verdict_name(enum prof_verdict verdict);
/* "profiling is enabled, but not active" */
const char *verdict_text(enum prof_verdict verdict);
/*
 * Writes the next step, as a sentence or a command. Returns true if it is a command that attaches.
 * The present value of the variable is repeated in it only if a shell would take it literally: it
 * comes from the target. "" for PROF_UNKNOWN.
 */
bool verdict_next(const struct prof_state *state, const struct conf *conf, int pid, char *out,
                  size_t size);
