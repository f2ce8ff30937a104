/*
 * prof.gdump=true: from then on jemalloc writes a profile each time that its virtual
 * memory reaches a new maximum, in the thread that needs the memory, inside its malloc
 * (prof_gdump; since 5.1 only while prof.active is true).
 */
#pragma once

#include "jemalloc/prof.h"

enum { GDUMP_NAMES_MAX = 8400 };

/*
 * Fills names with the name of the files, as the target sees it:
 * "/var/tmp/jeprof.4242.<n>.u<n>.heap". FAULT_GDUMP: no file could be created there, or a
 * large one would kill the target; fault.what says why.
 */
fault_code gdump_check(const struct target *target, const struct prof_state *state,
                       char names[GDUMP_NAMES_MAX], struct fault *fault);
