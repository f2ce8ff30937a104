/* The fault codes of this layer (base/fault.h). */
#pragma once

#include "elf/faults.h"

enum {
    FAULT_PERF_PARANOID = FAULT_FIRST(PERF, DENIED), /* kernel.perf_event_paranoid forbids it */
    FAULT_PERF_SECCOMP, /* the tool's own seccomp filter refuses perf_event_open(2) */
    FAULT_PERF_MODULE,  /* a security module or the lockdown of the kernel refuses it */
    FAULT_PERF_TARGET,  /* the kernel refuses it for this process only, cause unknown */
    FAULT_PERF_ABSENT,  /* the kernel has no perf events */
    FAULT_PERF_FILES,   /* the tool may not open enough files */
    FAULT_PERF_MEMORY,  /* the tool may not lock enough memory for the samples */
};
