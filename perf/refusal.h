/* Finds the one cause for which the kernel refuses perf_event_open(2). */
#pragma once

#include "attach/permit.h"

/* What the cause depends on. */
struct refusal_view {
    int err;           /* the errno for the target */
    int own_err;       /* for an event in the tool itself, of user space only; 0: granted */
    int paranoid;      /* kernel.perf_event_paranoid; REFUSAL_UNKNOWN */
    bool capable;      /* CAP_PERFMON or CAP_SYS_ADMIN is effective */
    char modules[128]; /* the kernel's security modules and its lockdown; "": unknown */
};

enum { REFUSAL_UNKNOWN = -100 };

/* Returns the cause as FAULT_PERF_*. Pure: the view contains everything. */
fault_code refusal_judge(const struct refusal_view *view, struct fault *fault);

/*
 * FAULT_PERF_SECCOMP if the tool's own filter refuses the call, or would kill the tool for
 * it: no call may be made before.
 */
fault_code refusal_of_filter(const struct target *target, struct fault *fault);

/*
 * Explains the error of the kernel for this target: FAULT_PERF_*, a FAULT_DENIED_* of
 * attach/permit.h if the process belongs to others, or a code of its end.
 */
fault_code refusal_explain(const struct target *target, int err, struct fault *fault);
