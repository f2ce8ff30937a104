/*
 * Which pages of a process are in memory, from /proc/PID/pagemap: whoever may read
 * the memory of the process may read which of its pages are present or swapped. Only
 * anonymous pages are looked at: heap, stacks, and written pages of private files.
 *
 * Linux 6.7 and later find them with ioctl(PAGEMAP_SCAN), which passes over address
 * space without pages; before, each page of a range is read: some 0.1 us for each page
 * in memory either way. The kernel takes the lock of the address space for 512 to 1024
 * pages at a time: a thread that maps memory meanwhile waits for 0.1 ms at most.
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

struct pagemap {
    int fd;
    unsigned page; /* bytes */
    bool scans;    /* PAGEMAP_SCAN is available */
    unsigned char *space;
};

/*
 * Opens that of a process, which may be another program later: after exec it shows
 * nothing any more. Returns 0 or -errno. pagemap_close is needed in each case.
 */
int pagemap_open(struct pagemap *map, const struct procfs *proc, pid_t pid);
void pagemap_close(struct pagemap *map);

/* Gets each piece that has pages, in the order of addresses. False: ends the visit. */
typedef bool (*pagemap_action)(void *ctx, const struct pagemap_piece *piece);

/* Visits a range of whole pages. Returns 0, or -errno; -ECANCELED: the action has ended it. */
int pagemap_visit(struct pagemap *map, remote_addr start, remote_addr end, pagemap_action action,
                  void *ctx);

/* Returns the bytes of a piece. */
static inline uint64_t pagemap_piece_bytes(const struct pagemap *map)
{
    return (uint64_t)map->page * PAGEMAP_PIECE;
}
