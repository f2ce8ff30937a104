/*
 * A target in which more stops prove nothing: the frames of its threads cannot be
 * followed, and words on their stacks look like return addresses into the
 * allocator. Not to be confused with threads that were in it whenever they were
 * stopped.
 */
#pragma once

#include "inject/candidates.h"

/* True if the stops of all these threads have shown that: see stops_is_unprovable. */
bool unprovable_all(const struct candidates *candidates, const struct stops *stops);

/* True if that is what all the stops so far have shown, however few they are. */
bool unprovable_so_far(const struct candidates *candidates, const struct stops *stops);

/*
 * Fills *fault with FAULT_UNPROVABLE, or with FAULT_NO_UNWINDER if the library
 * that follows frames is missing, and with what the stops have shown.
 */
fault_code unprovable_fault(const struct injection *injection, const struct candidates *candidates,
                            struct fault *fault);
