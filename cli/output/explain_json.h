/* What explain has found, as JSON members: less than 2.5 KB. */
#pragma once

#include "base/json.h"
#include "cli/message.h"
#include "run/explain/explain.h"

/* Adds the members; subject as in explain_print. */
void explain_json(const struct explain *explain, const struct subject *subject, struct json *json);
