/* The members of JSON that verbs have in common. */
#pragma once

#include "base/json.h"
#include "run/attachment.h"
#include "run/sampling.h"

/* Begins a verb's JSON on stdout, with the members that all have first: pid, ns_pid, name. */
void attachment_json_begin(const struct attachment *attachment, struct json *json);
/* The members that every verb's JSON has of the hold: thread, held_ns, calls, stops, search_ns. */
void attachment_json(const struct attachment *attachment, struct json *json);
/* sampled_ns, old, new, toggled_by_other, interrupted. */
void sampling_json(const struct sampling *sampling, struct json *json);
