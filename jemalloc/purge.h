/* arena.<i>.purge: unused dirty pages of all arenas go back to the kernel. */
#pragma once

#include "jemalloc/hooks.h"

struct purge_result {
    bool measured;                            /* config.stats: the two below were read */
    uint64_t resident_before, resident_after; /* stats.resident, bytes */
};

/*
 * Each arena by its own index: the one that stands for all would take in an
 * arena that a program makes, with hooks of its own, after they were looked at
 * (FAULT_HOOKS; hooks.h). The purge itself is madvise or munmap of every unused run of dirty pages,
 * in the held thread: its time grows with what there is to give back. FAULT_CTL_REFUSED if jemalloc
 * refuses it.
 */
fault_code purge_run(struct injection *injection, const struct instance *instance,
                     struct hooks_consent *consent, struct purge_result *result,
                     struct fault *fault);
