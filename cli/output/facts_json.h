/* Facts as JSON members; unknown facts are null. */
#pragma once

#include "base/json.h"
#include "jemalloc/build.h"

static inline void facts_json(struct json *json, const char *name, enum fact fact)
{
    if (fact == FACT_UNKNOWN)
        json_null(json, name);
    else
        json_bool(json, name, fact == FACT_YES);
}
