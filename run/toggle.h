/* Switches prof.active of a process to its other value, as on and off do, while top looks at it. */
#pragma once

#include "run/activating.h"

struct toggle {
    bool known, former, now; /* prof.active before, and read back after it; known: it was read */
    bool in_memory;          /* one byte was written; false: by a call */
    bool activated;          /* it is on: activating has what each thread does */
    struct activating activating;
};

/*
 * Between two refreshes, after attachment_rest. active: what the newest refresh has seen, where
 * memory does not show it. Any fault concerns the switch alone, unless the process has ended or
 * the user has interrupted it; result is valid then, too: known and former equal to now.
 */
fault_code toggle_prof(struct attachment *attachment, bool active, struct toggle *result,
                       struct fault *fault);
