/* What a state of profiling means, and the one next step: for status. */
#pragma once

#include "jemalloc/conf.h"
#include "jemalloc/prof.h"

#include <stddef.h>

/* "disabled": for JSON. NULL: unknown. */
const char *verdict_name(enum prof_verdict verdict);
/* "profiling is enabled, but not active" */
const char *verdict_text(enum prof_verdict verdict);
/*
 * Writes the next step, as a sentence or a command. Returns true if it is a command that attaches.
 * The variable's present value is taken over only if a shell would take it as it is: it comes from
 * the target. "" for PROF_UNKNOWN.
 */
bool verdict_next(const struct prof_state *state, const struct conf *conf, int pid, char *out,
                  size_t size);
