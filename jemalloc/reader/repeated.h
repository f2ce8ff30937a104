/* Finds stacks that were read twice. */
#pragma once

#include "jemalloc/reader/model.h"

/*
 * Drops all gctx of a profile but the last of those with the same program counters:
 * a stack was freed, and came back at another address, while the profile was read.
 * False: out of memory.
 */
bool repeated_drop(struct model *model);
