/* prof.reset: all that was sampled so far is dropped, and the period may change. */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/hooks.h"

struct reset_result {
    uint64_t old_lg_sample, new_lg_sample; /* read before and after */
};

/*
 * lg_sample -1: as it is. FAULT_PROF_* when this process cannot profile (the
 * call would crash 4.0 then), FAULT_CTL_REFUSED when jemalloc refused it or
 * holds another period afterwards. FAULT_HOOKS: it frees what the application's
 * extent hooks manage (hooks.h).
 */
fault_code reset_run(struct injection *injection, const struct instance *instance, int lg_sample,
                     struct hooks_consent *consent, struct reset_result *result,
                     struct fault *fault);
