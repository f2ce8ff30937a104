/*
 * What an extent's record says of a sampled object: when it was allocated, the size that was
 * asked for, and its prof_tctx_t (e_prof_info in edata.h; e_prof_tctx in extent_structs.h up to
 * 5.2.1). They are in the place of a slab's bitmap.
 */
#pragma once

#include "jemalloc/extents/classes.h"
#include "jemalloc/extents/extents.h"
#include "jemalloc/instance.h"

struct sampled_layout {
    unsigned first, commits; /* the first with it: VERSION_NUMBER of a release, commits after it */
    int8_t birth, asked, tctx; /* index in extent.words; -1: there is none */
};

/* Returns the layout of that version; NULL: unknown. */
const struct sampled_layout *sampled_layout_of(struct version version);

struct sampled {
    remote_addr tctx;
    uint64_t birth;   /* ns, of the clock that jemalloc uses; 0: unknown */
    bool is_stale;    /* surely freed, and kept by a thread for its next allocation */
    bool is_doubtful; /* may be freed, and kept by a thread: only its tctx can tell */
};

/*
 * Takes the sampled object of an extent; false if it is not sampled. A thread's cache keeps
 * sampled objects that were freed as they are (arena_dalloc_promoted), small ones as objects of
 * the smallest large class.
 */
bool sampled_take(struct sampled *sampled, const struct sampled_layout *layout,
                  const struct classes *classes, const struct extent *extent);
