/* The fault codes of this layer (base/fault.h). */
#pragma once

#include "run/faults.h"

enum {
    FAULT_LOST = FAULT_FIRST(CLI, UNFINISHED), /* the worker for this target was killed */

    FAULT_STATS_NO_JSON = FAULT_FIRST(CLI, PERMANENT), /* this jemalloc writes no JSON */

    FAULT_NAME_USAGE = FAULT_FIRST(CLI, OTHER), /* jemalloc has no such name, or no such value */
    FAULT_NAME_REFUSED, /* the name may not be used like that, or jemalloc refused it */
};
