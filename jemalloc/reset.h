/* prof.reset: all that was sampled so far is dropped, and the period may change. */
#pragma once

#include "jemalloc/build.h"

struct reset_result {
    uint64_t old_lg_sample, new_lg_sample; /* read before and after */
};

/*
 * lg_sample -1: as it is. FAULT_PROF_* when this process cannot profile (the
 * call would crash 4.0 then), FAULT_CTL_REFUSED when jemalloc refused it or
 * holds another period afterwards.
 */
enum fault_code reset_run(struct injection *injection, const struct instance *instance,
                          int lg_sample, struct reset_result *result, struct fault *fault);
