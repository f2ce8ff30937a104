/*
 * Leaves out the innermost calls of a stack that are of a standard library, so
 * that memory counts as that of the caller which asked for it: a row
 * "std::vector::push_back" would tell nobody where a program leaks.
 */
#pragma once

#include "profile/locations.h"

struct folding {
    /*
     * For each location: the one that replaces it as the innermost call, which
     * begins with the program's own code; TABLE_NONE: it has none.
     */
    uint32_t *begins;
};

/*
 * Adds the locations that are needed: those with own code below inlined calls of
 * a library; their lines are shared. False: out of memory. The caller frees
 * begins.
 */
bool folding_make(struct folding *folding, struct locations *locations);
/*
 * Folds a stack of depth locations, innermost first: returns the number of
 * locations that are left out at its start, and replaces the first one that is
 * kept. A stack without the program's own code is not folded. Adds the calls
 * that are left out, inlined ones included, to *calls.
 */
uint32_t folding_apply(const struct folding *folding, const struct locations *locations,
                       uint32_t *list, uint32_t depth, size_t *calls);
