/* The fault codes of this layer (base/fault.h). */
#pragma once

#include "inject/faults.h"

enum {
    FAULT_NO_ALLOCATOR = FAULT_FIRST(JEMALLOC, ABSENT), /* no jemalloc found in it */
    FAULT_NO_MATCH,                                     /* no process matches */

    FAULT_TOO_LATE = FAULT_FIRST(JEMALLOC, TRANSIENT), /* timed out; what was changed is restored */
    FAULT_NO_ANSWER, /* a page or a file of it never comes, and the wait has no end */

    FAULT_PROF_ABSENT = FAULT_FIRST(JEMALLOC, PERMANENT), /* config.prof is false */
    FAULT_PROF_DISABLED,                                  /* opt.prof is false */
    FAULT_HOOKS,        /* functions of the application would run in the call, and may take locks */
    FAULT_DUMP_HOOK,    /* a hook of the application waits for a file that streaming never makes */
    FAULT_STATS_ABSENT, /* config.stats is false */
    FAULT_STATS_MESSAGE,   /* malloc_message is a function of the program, and would be called */
    FAULT_STATS_NOT_FOUND, /* a build without a malloc_stats_print that can be called */
    FAULT_STATS_SLOW,      /* its report would take thousands of stops */
    FAULT_UNREADABLE,      /* the profile in its memory cannot be proven */
    FAULT_UNWRITABLE,      /* prof.active cannot be written in its memory */

    FAULT_CTL_REFUSED = FAULT_FIRST(JEMALLOC, OTHER), /* mallctl returned an error */
    FAULT_DUMP_OPEN,   /* the target could not open the profile; err is the errno of its open */
    FAULT_DUMP_WRITE,  /* the target could not write it all; err is the errno, or 0 if cut short */
    FAULT_DUMP_UNSAFE, /* a dump to that file could harm the target */
    FAULT_DUMP_EXISTS, /* a dump would replace that file */
    FAULT_DUMP_NAMELESS, /* jemalloc has no name for the profile */
};

/* Values of fault.reason of FAULT_NO_ALLOCATOR. */
enum no_allocator_reason {
    NO_ALLOCATOR_OTHER,  /* the malloc of the C library, or of another library */
    NO_ALLOCATOR_OWN,    /* the program defines malloc: a preloaded library does not replace it */
    NO_ALLOCATOR_STATIC, /* a static program: it loads no library */
};

/* Values of fault.reason of FAULT_UNSUPPORTED. */
enum unsupported_reason {
    UNSUPPORTED_FORESEEN,  /* nothing was called */
    UNSUPPORTED_BY_RESULT, /* a function was called that is not mallctl (ctl_confirm) */
};

/* True if rc says that a process cannot profile: its build, or how it was started. */
static inline bool fault_lacks_profiling(fault_code rc)
{
    return rc == FAULT_PROF_ABSENT || rc == FAULT_PROF_DISABLED;
}
