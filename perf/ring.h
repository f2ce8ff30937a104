/* The memory that the kernel writes the records of events into, as a ring, and the records. */
#pragma once

#include "perf/user_state.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <sys/types.h>

enum { RECORD_MAX = UINT16_MAX, CHAIN_MAX = 256 };

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

/* A sample (PERF_RECORD_SAMPLE). */
struct sample_record {
    pid_t pid, tid;
    uint64_t time_ns;
    remote_addr addr;
    uint64_t event;          /* the number of the event (event_id) */
    struct user_state state; /* points into the record and to chain */
    uint64_t chain[CHAIN_MAX];
};

/*
 * Parses the bytes behind the header; registers as in the event. False: the record is not
 * one, and *out is undefined. A stack or a chain that is longer than the record is cut.
 */
bool record_sample(struct sample_record *out, const unsigned char *bytes, size_t len,
                   uint64_t registers);

/* Returns the process in which a PERF_RECORD_FORK tells of a new thread; 0: of a new process. */
pid_t record_new_thread(const unsigned char *bytes, size_t len);
/* Returns the number of lost records that a PERF_RECORD_LOST tells of. */
uint64_t record_lost(const unsigned char *bytes, size_t len);
