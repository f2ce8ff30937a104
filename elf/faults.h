/* The fault codes of this layer (base/fault.h). */
#pragma once

#include "attach/faults.h"

enum {
    /* it uses something that would break a call, or that would be broken by one */
    FAULT_UNSUPPORTED = FAULT_FIRST(ELF, DENIED) | FAULT_OF_THREAD,
    FAULT_FOREIGN_ABI, /* it runs 32-bit code, or another machine's */

    FAULT_CORE = FAULT_FIRST(ELF, OTHER), /* a file is not a core file that can be used */
};
