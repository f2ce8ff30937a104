/* prof.reset: drops all samples, and may change the period. */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/hooks.h"

struct reset_result {
    uint64_t old_lg_sample, new_lg_sample; /* read before and after */
};

/*
 * lg_sample -1 keeps the period. FAULT_PROF_*: this process cannot profile (the
 * call would then crash 4.0). FAULT_CTL_REFUSED: mallctl refused it, or has
 * another period afterwards. FAULT_HOOKS: it would free memory that extent hooks
 * of the application manage (hooks.h).
 */
fault_code reset_run(struct injection *injection, const struct instance *instance, int lg_sample,
                     struct hooks_consent *consent, struct reset_result *result,
                     struct fault *fault);
