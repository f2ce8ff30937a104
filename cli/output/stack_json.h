/* A stack in JSON. */
#pragma once

#include "base/json.h"
#include "profile/samples.h"

/*
 * Writes a list of the calls of a stack, the innermost first, each with function, file (null:
 * unknown) and line (0: unknown). name as for json_list_begin.
 */
void stack_json(struct json *json, const char *name, const struct samples *samples,
                const struct sample *sample);
