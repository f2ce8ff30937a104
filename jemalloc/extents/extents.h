/*
 * The live objects of a process, from jemalloc's own records in its memory: the tree from
 * page to extent (rtree.h), the extents (extent_structs.h, edata.h since 5.3) and the bitmap
 * of each slab. Nothing is called and nothing is stopped, and no symbol is needed: from 5.0.
 * The layout is proven on the data, or refused: each record must lead back to the page that
 * leads to it, and agree with the tree on size class and kind; the bitmap of a slab must
 * have as many free bits as its record counts.
 *
 * Nothing changes in the process: a page without contents is never read, because the kernel
 * would give it a page table entry (heap_pages.h).
 */
#pragma once

#include "jemalloc/instance.h"
#include "jemalloc/reader/reader.h"

/* Pages in use, or free ones that jemalloc keeps: as extent_state_t (extent_types.h, edata.h). */
enum extent_state {
    EXTENT_ACTIVE,
    EXTENT_DIRTY,
    EXTENT_MUZZY,
    EXTENT_RETAINED,
    EXTENT_PINNED, /* since 5.4; before, 4 is on the way from one state to another */
    EXTENT_STATES,
};

/* A slab of small objects, or one large object; or free pages, which have no objects. */
struct extent {
    remote_addr start; /* of the first object */
    uint64_t bytes;    /* of the whole; a large one has up to a page more than its object */
    uint64_t size;     /* usable bytes of an object: those of its size class */
    uint32_t objects;  /* that fit; large: 1 */
    uint32_t used;
    unsigned class; /* index of its size class, the small ones first */
    unsigned arena;
    enum extent_state state; /* EXTENT_STATES: none of them */
    bool slab, is_huge_page; /* is_huge_page: of the allocator of huge pages (hpa.h) */
    remote_addr record;      /* where it was read */
    union {
        uint64_t bitmap[8]; /* slab: bit set: in use, or kept by a thread for its next allocation */
        uint64_t words[8];  /* else: the end of its record, for sampled_take */
    };
};

enum { EXTENT_OBJECTS_MAX = 512 };

struct extents;
struct classes;
struct heap_pages;

/*
 * Finds and proves the records; *extents is NULL on failure. FAULT_UNREADABLE with one of
 * enum unreadable_reason: UNREADABLE_VERSION (before 5.0), UNREADABLE_TABLE (not found),
 * UNREADABLE_PROOF, UNREADABLE_PINNED (/proc/PID/mem is closed: memory_is_pinned). Takes some ms,
 * and more for a program of many megabytes of static data.
 */
fault_code extents_open(struct extents **extents, const struct reader_source *source,
                        struct fault *fault);

/* The parts of a large memory that are read. Zeros: the next pass chooses, and sets both. */
struct extents_parts {
    uint64_t seed, below; /* the hashes that are less; UINT64_MAX: all */
};

/* One pass over the records. */
struct extents_pass {
    uint64_t limit; /* in: bytes of memory whose records are read; 0: the usual 16 GiB */
    bool free_too;  /* in: free ones, too, with only arena, state, start and bytes */
    struct extents_parts *parts; /* in: the same in all passes that have it; NULL: always others */
    double share;                /* of memory whose records were read, 1: all; divide sums by it */
    size_t extents;              /* that were passed on */
    size_t unsettled;            /* left out, because they changed while they were read */
    uint64_t ns;                 /* time that it took */
};

/*
 * Calls the action for each extent in use, in the order of addresses, until it returns false.
 * A process with more memory than the limit is read in random parts of 1 or 2 MiB; once chosen,
 * parts stay even if the memory grows, and new memory has its share of them. Memory that
 * the process mapped after source.modules was read is not seen. FAULT_INTERRUPTED,
 * FAULT_TOO_LATE: the deadline of the source; FAULT_EXECED; FAULT_UNREADABLE with
 * UNREADABLE_CHANGING.
 */
typedef bool (*extent_action)(void *ctx, const struct extent *extent);
fault_code extents_each(struct extents *extents, extent_action action, void *ctx,
                        struct extents_pass *pass, struct fault *fault);

/* Returns the estimate for all memory of a sum of what a pass has read: equal if all was. */
uint64_t extents_estimate(const struct extents_pass *pass, uint64_t read);

/*
 * Reads the records of extents that a pass has passed on again, and takes their words from there.
 * objects becomes 0 where it is another extent by now, or none.
 */
void extents_renew(struct extents *extents, struct extent *list, size_t count);

/*
 * Calls the action for all extents, free ones too, with only arena, start and bytes: for the
 * memory that jemalloc has from the kernel. So do blocks of its own data, as extents of no
 * arena. Each may come twice. FAULT_TOO_LARGE: there is more memory than the limit, bytes, and it
 * reads nothing.
 */
fault_code extents_each_range(struct extents *extents, uint64_t limit, extent_action action,
                              void *ctx, struct fault *fault);

/* Finds the extent that contains addr, as it is now; false: none is in use there. */
bool extents_at(struct extents *extents, remote_addr addr, struct extent *extent);
void extents_close(struct extents *extents);

/* What it reads from, and the version of its jemalloc; they live as long. */
const struct heap_pages *extents_heap(const struct extents *extents);
struct version extents_version(const struct extents *extents);

/* Returns the size classes of this jemalloc (extents/classes.h), which live as long. */
const struct classes *extents_classes(const struct extents *extents);

/* Returns the first address of the extent's object `at`, of extent->objects. */
static inline remote_addr extent_object(const struct extent *extent, uint32_t at)
{
    return extent->start + at * extent->size;
}

/* True if object `at` is in use, or kept by a thread for its next allocation. */
static inline bool extent_in_use(const struct extent *extent, uint32_t at)
{
    return !extent->slab || extent->bitmap[at / 64] >> at % 64 & 1;
}
