/*
 * The growth by stack as an exact heap profile, for its names and views: an object is
 * a page. In use are the pages that a stack has gained, accumulated all that it touched.
 */
#pragma once

#include "jemalloc/sink.h"
#include "run/grow/grow_sites.h"

/*
 * Appends the profile, with the mappings of the last look. Threads are those of the
 * process, by their thread ids. FAULT_TOO_LARGE, FAULT_INTERNAL.
 */
fault_code grow_profile_make(const struct grow_sites *sites, const struct grow_pages *pages,
                             const struct target *target, struct sink *sink, struct fault *fault);
