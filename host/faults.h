/* The fault codes of this layer (base/fault.h). */
#pragma once

#include "base/fault.h"

enum {
    FAULT_NO_GROUP = FAULT_FIRST(HOST, ABSENT), /* no cgroup has that path */

    FAULT_AMBIGUOUS = FAULT_FIRST(HOST, OTHER), /* the id is a prefix of several */
};
