/* arena.<i>.purge: returns unused dirty pages of all arenas to the kernel. */
#pragma once

#include "jemalloc/hooks.h"

struct purge_result {
    bool measured;                            /* the next two were read; needs config.stats */
    uint64_t resident_before, resident_after; /* stats.resident, bytes */
};

/*
 * Purges each arena by its own index: the index for all arenas would include an
 * arena with its own hooks that the program creates after they were checked
 * (FAULT_HOOKS; hooks.h). The stopped thread calls madvise or munmap for every
 * unused run of dirty pages, so the time grows with the memory returned.
 * FAULT_CTL_REFUSED: mallctl refused it.
 */
fault_code purge_run(struct injection *injection, const struct instance *instance,
                     struct hooks_consent *consent, struct purge_result *result,
                     struct fault *fault);
