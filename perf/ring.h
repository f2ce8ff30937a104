/* The memory that the kernel writes the records of events into, as a ring. */
#pragma once

#include "base/util.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>

enum { RECORD_MAX = UINT16_MAX };

struct ring {
    struct perf_event_mmap_page *page;
    const unsigned char *bytes; /* behind the page; size is a power of two */
    size_t size;
    unsigned char *whole; /* for a record that is split by the end of the ring */
    bool broken;          /* the positions in the page contradict each other */
};

/* A record with its header; valid until ring_release. */
struct ring_record {
    uint32_t type;
    const unsigned char *body; /* behind the header */
    size_t len;
};

/*
 * Maps the ring of an event, of size bytes or, if the tool may not lock so much memory, of
 * less, down to least. Both are powers of two. Returns 0 or -errno.
 */
int ring_map(struct ring *ring, int fd, size_t size, size_t least);
void ring_unmap(struct ring *ring);

/*
 * Takes the next record; *position, first from ring_begin, moves past it. False: there is
 * no more.
 */
uint64_t ring_begin(const struct ring *ring);
bool ring_next(struct ring *ring, uint64_t *position, struct ring_record *record);
/* Gives the space before the position back to the kernel. */
void ring_release(struct ring *ring, uint64_t position);
