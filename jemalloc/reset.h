/* prof.reset: drops all samples. */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/hooks.h"

/*
 * Keeps the period. FAULT_PROF_*: this process cannot profile (the call would then crash 4.0).
 * FAULT_CTL_REFUSED: mallctl refused it. FAULT_HOOKS: it would free memory that extent hooks of
 * the application manage (hooks.h).
 */
fault_code reset_run(struct injection *injection, const struct instance *instance,
                     struct hooks_consent *consent, struct fault *fault);
