/*
 * Which pages of a process are in memory, from /proc/PID/pagemap: whoever may read
 * the memory of the process may read which of its pages are present or swapped
 * (Documentation/admin-guide/mm/pagemap.rst). Nothing changes in the process.
 *
 * pagemap_visit finds the anonymous pages of large ranges: heap, stacks, and written pages
 * of private files; with map->files, all pages that are mapped. Linux 6.7 and later find them with
 * ioctl(PAGEMAP_SCAN), which passes over address space without pages; before, each page of a range
 * is read: some 0.1 us for each page in memory either way. The kernel takes the lock of the address
 * space for 512 to 1024 pages at a time: a thread that maps memory meanwhile waits for 0.1 ms at
 * most.
 *
 * pagemap_states tells the state of a few pages, whatever they are pages of, in one read for
 * each 512 of them. It is for those who read memory: a read by another process brings a
 * page back from swap, or maps the zero page where none is.
 */
#pragma once

#include "base/util.h"
#include "host/procfs.h"

#include <stdbool.h>

enum {
    PAGEMAP_PIECE = 512, /* pages, aligned: with pages of 4 KiB a huge page */
    PAGEMAP_WORDS = PAGEMAP_PIECE / 64,
};

/* A bit is set for each page: bit i % 64 of word i / 64. */
struct pagemap_piece {
    remote_addr start;
    uint64_t resident[PAGEMAP_WORDS];
    uint64_t swapped[PAGEMAP_WORDS];
    unsigned huge; /* pages that are part of huge pages; 0 if the kernel does not tell */
};

enum page_state {
    PAGE_PRESENT,
    PAGE_SWAPPED,
    PAGE_EMPTY,   /* never written, or given back */
    PAGE_UNKNOWN, /* the file does not tell: there is none, or it ends before */
};

struct pagemap {
    int fd;               /* below 0: each page is unknown */
    unsigned page;        /* bytes */
    bool scans;           /* PAGEMAP_SCAN is available; known after the first visit */
    bool files;           /* visits find pages of files and of shared memory, too */
    unsigned char *space; /* of visits; the pagemap owns it */
};

/*
 * Opens that of a process, which may be another program later: after exec it shows
 * nothing any more. Returns 0 or -errno. pagemap_close is needed in each case, and map->page
 * is known in each case.
 */
int pagemap_open(struct pagemap *map, const struct procfs *proc, pid_t pid);
void pagemap_close(struct pagemap *map);

/* Gets each piece that has pages, in the order of addresses. False: ends the visit. */
typedef bool (*pagemap_action)(void *ctx, const struct pagemap_piece *piece);

/*
 * Visits a range of whole pages. Returns 0, or -errno: -ECANCELED: the action has ended it;
 * -ESRCH: the process has no memory any more; -ENOMEM.
 */
int pagemap_visit(struct pagemap *map, remote_addr start, remote_addr end, pagemap_action action,
                  void *ctx);

/* Sets the states of `count` pages, the first of which contains addr. Cannot fail. */
void pagemap_states(const struct pagemap *map, remote_addr addr, enum page_state *states,
                    size_t count);

/* Returns the bytes of a piece. */
static inline uint64_t pagemap_piece_bytes(const struct pagemap *map)
{
    return (uint64_t)map->page * PAGEMAP_PIECE;
}
