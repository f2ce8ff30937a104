/* The fault codes of this layer (base/fault.h). */
#pragma once

#include "elf/faults.h"

enum {
    FAULT_EXECED = FAULT_FIRST(INJECT, GONE), /* it replaced itself by another program */

    FAULT_STOPPED = FAULT_FIRST(INJECT, TRANSIENT) | FAULT_OF_THREAD, /* by job control (SIGSTOP) */
    FAULT_NO_STOP,       /* the thread did not stop in time (uninterruptible) */
    FAULT_NO_SAFE_POINT, /* no thread could be proven outside the allocator in time */
    FAULT_NO_UNWINDER,   /* the same, and the library that could prove more is not installed */
    FAULT_NO_SCRATCH,    /* the kernel refused the scratch memory */
    FAULT_STOPS_THREADS, /* its threads are stopped by signals, perhaps the owner of a lock */
    FAULT_OCCUPIED,      /* a thread keeps the address space locked, for which a call would wait */

    /* a call could harm its threads, and the kernel does not show whether */
    FAULT_WITHHELD = FAULT_FIRST(INJECT, DENIED) | FAULT_OF_THREAD,

    /* The tool has left a thread to itself, behind its first change; it ends on its own. */
    FAULT_CALL_WAITS = FAULT_FIRST(INJECT, UNFINISHED), /* it waits for the address space */
    FAULT_CALL_HANGS, /* a signal that the program handles waits for the end of the call */

    FAULT_INTERRUPTED = FAULT_FIRST(INJECT, OTHER), /* the operator ended it */
};
