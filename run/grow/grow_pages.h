/*
 * The pages of a process over a time, but for those of files: which were there at the first
 * look, which are there now, and since which look each of the others has been there
 * without a break. Swapped pages are there, too, unless they are of shared memory.
 */
#pragma once

#include "attach/memory.h"
#include "base/interruptions.h"
#include "host/pagemap.h"

enum {
    GROW_LOOKS_MAX = 250,
    GROW_PIECES_MAX = 4 << 20, /* with pages of 4 KiB: of 8 TiB in memory */
};

/* Whose memory a page is. Those before GROW_SHARED are of the process alone. */
enum grow_kind {
    GROW_JEMALLOC, /* in its extents, also free ones */
    GROW_LIBC,     /* of the C library's allocator: [heap], and glibc's arenas */
    GROW_PYMALLOC, /* pools of CPython's allocator */
    GROW_MAPPED,   /* other anonymous mappings: by mmap(2), or of other allocators */
    GROW_STACKS,   /* of threads */
    GROW_DATA,     /* written pages of private files: variables of programs and libraries */
    GROW_SHARED,   /* shared memory: memfd_create(2), /dev/shm, System V */
    GROW_HUGE,     /* mappings of huge pages (hugetlbfs), which the RSS does not count */
    GROW_FILES,    /* pages of files: their number is known, not which they are */
    GROW_KINDS,
};

static inline bool grow_kind_is_private(enum grow_kind kind)
{
    return kind < GROW_SHARED;
}

struct grow_range {
    remote_addr start, end;
    enum grow_kind kind;
    bool guard; /* no access at all: guard pages, for instance */
};

struct grow_piece {
    remote_addr start;
    uint64_t first[PAGEMAP_WORDS], now[PAGEMAP_WORDS];
    unsigned char *born; /* of each page that is new: number of the look; NULL: none is */
    unsigned look;       /* the last one that saw pages in it */
};

struct grow_pages {
    struct pagemap map;
    struct grow_piece *list; /* in the order of addresses */
    size_t count, capacity;
    size_t sorted;             /* during a look: the pieces that were there before it */
    struct grow_range *ranges; /* the mappings at the last look, in the order of addresses */
    size_t range_count, range_capacity;
    struct grow_range *former; /* at the first look: for pages whose mapping is gone */
    size_t former_count;
    char *maps; /* text of the last look */
    size_t maps_len;
    unsigned looks;                    /* so far */
    uint64_t began_ns[GROW_LOOKS_MAX]; /* CLOCK_MONOTONIC */
    uint64_t lost[GROW_LOOKS_MAX];     /* pages of the first look that were not there */
    uint64_t longest_ns;               /* of one look */
    uint64_t spent_ns;                 /* CPU time of all looks */
    uint64_t unread;                   /* bytes of address space that the last look left out */
    uint64_t huge_first, huge_now;     /* pages in huge pages */
    uint64_t swap_first, swap_now;     /* swapped pages */
    remote_addr anchor;                /* an address of the program, which stays mapped */
    bool too_many;                     /* pieces: the rest is not seen */
    bool cut;                          /* the present look, by its deadline or by Ctrl-C */
    const struct deadline *deadline;   /* of the present look */
};

/* FAULT_DENIED: its pagemap is refused; FAULT_INTERNAL. grow_pages_close in each case. */
fault_code grow_pages_open(struct grow_pages *pages, const struct target *target,
                           struct fault *fault);
void grow_pages_close(struct grow_pages *pages);

/*
 * Looks at all pages; at most GROW_LOOKS_MAX times. memory is that of the process, in
 * which pages->anchor is mapped. FAULT_GONE, FAULT_EXECED, FAULT_INTERRUPTED, FAULT_TOO_LATE:
 * the pages stay those of the look before.
 */
fault_code grow_pages_look(struct grow_pages *pages, const struct target *target,
                           const struct memory *memory, const struct deadline *deadline,
                           struct fault *fault);

/*
 * Marks the mappings of thread stacks, as far as the threads are asleep now. False: the
 * deadline has passed before all threads were looked at.
 */
bool grow_pages_mark_stacks(struct grow_pages *pages, const struct target *target,
                            const struct deadline *deadline);
/* Marks the mapping that contains a thread's stack pointer. */
void grow_pages_mark_stack(struct grow_pages *pages, remote_addr sp);
/* Keeps the mappings as those of the first look. After the last one, stacks stay stacks. */
bool grow_pages_keep_former(struct grow_pages *pages);
void grow_pages_recall_stacks(struct grow_pages *pages);
/*
 * Splits mappings where memory of an allocator begins and ends: those parts of GROW_MAPPED and
 * GROW_LIBC get the kinds of `parts`, which are in the order of addresses and do not overlap.
 * False: out of memory.
 */
bool grow_pages_split(struct grow_pages *pages, const struct grow_range *parts, size_t count);

/* Returns the kind of a page, as of the last look that found it mapped. */
enum grow_kind grow_pages_kind(const struct grow_pages *pages, remote_addr addr);
/* Returns the mapping that contains addr, or NULL. */
const struct grow_range *grow_pages_range(const struct grow_pages *pages, remote_addr addr);
/*
 * Returns how many pages of shared memory were gained in mappings that were there at the first
 * look: the process has touched them, and others may have had them before.
 */
uint64_t grow_pages_only_touched(const struct grow_pages *pages);
/* Returns the piece of addr, or NULL. */
const struct grow_piece *grow_pages_piece(const struct grow_pages *pages, remote_addr addr);

/* The pages of a piece that are there now and were not at the first look. */
static inline uint64_t grow_piece_gained(const struct grow_piece *piece, size_t word)
{
    return piece->now[word] & ~piece->first[word];
}
