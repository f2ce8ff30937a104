/*
 * The live objects of a process, from jemalloc's own records in its memory: the tree from
 * page to extent, the extents, and the bitmap of each slab. Nothing is called and nothing
 * is stopped. The layout is chosen by the version and then proven on the data.
 */
#pragma once

#include "jemalloc/reader/reader.h"

/* Some objects next to each other in memory: a slab, or one large object. */
struct extent {
    remote_addr start;
    uint64_t bytes;   /* of the whole */
    uint64_t size;    /* bytes of an object */
    uint32_t objects; /* that fit; large: 1 */
    uint32_t used;
    unsigned arena;
    bool slab;
    uint64_t bitmap[8]; /* slab: bit set: in use, or kept by a thread for its next allocation */
};

struct extents;

/* Finds and proves the records. FAULT_UNREADABLE with the reason, as reader_open. */
fault_code extents_open(struct extents **extents, const struct reader_source *source,
                        struct fault *fault);

/*
 * Calls the action for each extent in use, in the order of addresses, until it returns false.
 * An extent that changes while it is read is left out and counted.
 */
typedef bool (*extent_action)(void *ctx, const struct extent *extent);
fault_code extents_each(struct extents *extents, extent_action action, void *ctx, size_t *unsettled,
                        struct fault *fault);
/* Finds the extent that contains addr, as it is now; false: none is in use there. */
bool extents_at(struct extents *extents, remote_addr addr, struct extent *extent);
void extents_close(struct extents *extents);
