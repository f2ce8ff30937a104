/* The fault codes of this layer (base/fault.h). */
#pragma once

#include "jemalloc/faults.h"
#include "perf/faults.h"
#include "profile/faults.h"

enum {
    /* its memory cgroup is full: the kernel might kill it for one more page */
    FAULT_NO_HEADROOM = FAULT_FIRST(RUN, TRANSIENT),
    FAULT_NO_CPU, /* the tool may not get a CPU while a thread is stopped */

    FAULT_NO_ANSWER_HELD =
        FAULT_FIRST(RUN, UNFINISHED), /* FAULT_NO_ANSWER, with a thread stopped */

    FAULT_NO_INSTANCE = FAULT_FIRST(RUN, ABSENT), /* no jemalloc of that number */

    FAULT_CALL_FORBIDDEN = FAULT_FIRST(RUN, PERMANENT), /* it needs a call, with WAY_MEMORY */
    FAULT_NO_COUNTS,          /* what its threads have allocated cannot be read from its memory */
    FAULT_OBJECTS_UNREADABLE, /* its live objects cannot be found in its memory */

    FAULT_OUTPUT = FAULT_FIRST(RUN, OUTPUT), /* the tool's own output could not be written */
    FAULT_OUTPUT_OTHERS,                     /* a link or file of another user is in its way */
    FAULT_DRAW,                              /* dot could not draw the call graph, or not in time */

    FAULT_SEVERAL = FAULT_FIRST(RUN, OTHER), /* several processes match, where one is needed */
    FAULT_CORE_INPUT,                        /* the core file cannot be opened or copied */
    FAULT_CORE_PROGRAM,                      /* --exe or --root are not of this core file */
    FAULT_CORE_LACKS,                        /* it does not contain what is needed */
    FAULT_CORE_FILES,                        /* the files that are needed with it are not here */
};

/* Values of fault.reason of FAULT_OUTPUT. */
enum output_reason {
    OUTPUT_OTHER,
    OUTPUT_READER_LEFT, /* the reader of stdout has closed it, as head(1) does */
};
