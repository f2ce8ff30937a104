/* The fault codes of this layer (base/fault.h). */
#pragma once

#include "elf/faults.h"

enum {
    FAULT_PROFILE = FAULT_FIRST(PROFILE, OTHER), /* a file is no heap profile, or is unreadable */
};
