/* JSON members that several verbs share. */
#pragma once

#include "base/json.h"
#include "jemalloc/build.h"
#include "profile/samples.h"
#include "run/attachment.h"
#include "run/sampling.h"

/* Begins a verb's JSON on stdout with the first members of every verb: pid, ns_pid, name. */
void attachment_json_begin(const struct attachment *attachment, struct json *json);
/* Adds the members about the stopped thread: thread, held_ns, calls, stops, search_ns. */
void attachment_json(const struct attachment *attachment, struct json *json);
/* Adds how the profile was taken: way (calls), and read_ns and unsettled, null if none was read. */
void way_json(const struct attachment *attachment, bool calls, struct json *json);
/*
 * Two fields: cut_short, whether the process ended before, and age_ns: how long before that was
 * seen the profile was read; null if it was not cut short, with age_ns 0.
 */
#define CUT_SHORT(age_ns) FLAG("cut_short", age_ns), NUMBER_IF(age_ns, "age_ns", age_ns)
/* Adds sampled_ns, old, new, toggled_by_other, interrupted. */
void sampling_json(const struct sampling *sampling, struct json *json);

/*
 * Writes a list of the calls of a stack, the innermost first, each with function, file (null:
 * unknown) and line (0: unknown). name as for json_list_begin.
 */
void stack_json(struct json *json, const char *name, const struct samples *samples,
                const struct sample *sample);

/* A field that is a fact; an unknown one is null. */
#define FACT(name, fact)                                                                           \
    FIELD(name, (fact) == FACT_UNKNOWN ? FIELD_NULL : FIELD_BOOL, truth, (fact) == FACT_YES)
