/* The processes that a search or a list has left out, and why. */
#pragma once

#include "base/json.h"
#include "jemalloc/selection.h"

/* Prints a message about each, the first ones if there are many. */
void left_out_print(const struct left_out *left, size_t count);
/* Writes the member left_out_processes. */
void left_out_json(struct json *json, const struct left_out *left, size_t count);
