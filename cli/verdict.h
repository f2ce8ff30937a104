/* The verdict of status on a state of profiling, and the next step. */
#pragma once

#include "jemalloc/conf.h"
#include "jemalloc/prof.h"

/* "disabled", for JSON; NULL if unknown. */
const char *verdict_name(enum prof_verdict verdict);
/* "profiling is enabled, but not active" */
const char *verdict_text(enum prof_verdict verdict);
/* "'prof=true': a colon stands between name and value", of a setting that jemalloc rejects. */
const char *verdict_flaw(const struct conf_setting *setting, const struct build *build, char *out,
                         size_t size);
/*
 * Visits each setting of a source that jemalloc rejects. What a source has lost at its end, which
 * is longer than is kept, is none.
 */
void verdict_flaws(const struct conf_source *source, const struct build *build,
                   void (*visit)(void *ctx, const struct conf_setting *setting), void *ctx);

/*
 * Why a process whose profiling is disabled was not started with it, as its sources show:
 * "jemalloc rejected 'prof=true' in MALLOC_CONF"; "": it is not known.
 */
const char *verdict_why(const struct build *build, const struct conf *conf, char *out, size_t size);

/*
 * Writes the next step, as a sentence or a command. Returns true if it is a command that attaches.
 * The settings in force that the variable has are repeated in it if a shell takes them literally:
 * they come from the target. "" for PROF_UNKNOWN.
 */
bool verdict_next(const struct prof_state *state, const struct conf *conf, int pid, char *out,
                  size_t size);
