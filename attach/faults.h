/* The fault codes of this layer (base/fault.h). */
#pragma once

#include "host/faults.h"

enum {
    /* there is no such process, or no such thread */
    FAULT_GONE = FAULT_FIRST(ATTACH, GONE) | FAULT_OF_THREAD,
    FAULT_ZOMBIE =
        FAULT_FIRST(ATTACH, GONE), /* it has ended, and its parent has not collected it */
    FAULT_REUSED,                  /* the pid belongs to another process now */
    FAULT_OTHER_PIDNS,             /* the pid is one in another pid namespace */

    FAULT_TRACED = FAULT_FIRST(ATTACH, TRANSIENT) | FAULT_OF_THREAD, /* by another tracer */
    FAULT_FROZEN = FAULT_FIRST(ATTACH, TRANSIENT),                   /* its cgroup is frozen */

    /* the kernel said EPERM or EACCES, cause unknown */
    FAULT_DENIED = FAULT_FIRST(ATTACH, DENIED) | FAULT_OF_THREAD,
    FAULT_DENIED_UID,  /* it belongs to another user */
    FAULT_DENIED_GID,  /* it runs with another group */
    FAULT_DENIED_CAPS, /* it has capabilities that the tool lacks */
    FAULT_DENIED_DUMPABLE = FAULT_FIRST(ATTACH, DENIED), /* it is not dumpable */
    FAULT_DENIED_USERNS,  /* the tool's capabilities do not count in its user namespace */
    FAULT_DENIED_YAMA,    /* kernel.yama.ptrace_scope forbids it */
    FAULT_DENIED_SECCOMP, /* the tool's own seccomp filter refuses what it needs */
    FAULT_DENIED_LSM,     /* a security module refuses it */
    FAULT_HIDDEN,         /* it exists, but /proc does not show it */
    FAULT_PROCFS,         /* /proc is not that of the tool's pid namespace */
    FAULT_TOOL_TRACED,    /* the tool itself is traced, and so can trace nobody */

    FAULT_KERNEL_THREAD = FAULT_FIRST(ATTACH, PERMANENT), /* it has no memory of its own */

    FAULT_CALL_DEADLINE = FAULT_FIRST(ATTACH, UNFINISHED), /* the call did not return in time */
};

/*
 * Values of fault.reason: for FAULT_FROZEN an enum freezer (host/cgroup.h), for
 * FAULT_DENIED_LSM an enum lsm_kind (host/rights.h), for FAULT_DENIED_YAMA the value of
 * kernel.yama.ptrace_scope, for others an enum below.
 */
enum tracer_kind { TRACER_OTHER, TRACER_JEATTACH };  /* of FAULT_TRACED, FAULT_TOOL_TRACED */
enum denied_access { DENIED_ATTACH, DENIED_MEMORY }; /* of FAULT_DENIED: what the kernel refused */
