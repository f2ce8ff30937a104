/*
 * The live objects of a process at one moment, by size class, and of each sampled one also the
 * stack that allocated it: one pass over jemalloc's own records (extents.h). Nothing is called
 * and nothing is stopped.
 *
 * A sampled object has an extent of its own, whose record leads to its stack: prof_tctx_t, and
 * from there prof_gctx_t (reader/layout.h). It keeps the class of its own size.
 */
#pragma once

#include "jemalloc/extents/classes.h"
#include "jemalloc/extents/extents.h"

/* A sampled object. Start and birth together identify it among all of the process's life. */
struct live_object {
    remote_addr start;
    /*
     * ns, of CLOCK_MONOTONIC, up to some ms too early: its coarse form. 0: unknown, as in releases
     * before 5.2 and in another time namespace.
     */
    uint64_t birth;
    uint32_t stack; /* index in stacks; TABLE_NONE: it could not be read */
    uint16_t class;
};

/* The return addresses of a stack, innermost first, as prof.dump prints them. */
struct live_stack {
    size_t first; /* in words */
    uint32_t depth;
};

/* All stacks that were seen in any look: a number keeps its meaning. */
struct live_stacks {
    struct live_stack *list;
    uint64_t *words;
    size_t count, capacity, word_count, word_capacity;
};

enum { LIVE_SAMPLES_MAX = 1 << 18 };

#define LIVE_LIMIT ((uint64_t)64 << 30) /* bytes of memory whose records all are read */

struct live_look {
    uint64_t at_ns, took_ns; /* CLOCK_MONOTONIC: the middle of the pass */
    double share;            /* of the memory that was read, 1: all; the same parts each time */
    uint64_t objects[CLASSES_MAX]; /* in use, sampled ones included; without jemalloc's own */
    uint64_t bytes[CLASSES_MAX];   /* of them */
    uint64_t own[CLASSES_MAX];     /* objects of jemalloc itself, which it has because it samples */
    struct live_object *samples;   /* ascending by start */
    size_t sample_count, sample_capacity;
    size_t stale;    /* freed samples in caches of threads, which count nowhere */
    size_t left_out; /* samples beyond LIVE_SAMPLES_MAX, which only count as objects */
};

struct live; /* knows where the records are; has the stacks */

/*
 * Finds and proves the records: faults of extents_open. samples: looks have sampled objects, if
 * the layout of this release is known; live_has_samples tells. The source's parts must outlive it,
 * and its modules be those of now at each look: the list of mappings grows with the heap.
 */
fault_code live_open(struct live **live, const struct reader_source *source, bool samples,
                     struct fault *fault);
bool live_has_samples(const struct live *live);
const struct classes *live_classes(const struct live *live);
const struct live_stacks *live_stacks(const struct live *live);
/* Returns the records, for a pass close to a look. */
struct extents *live_extents(const struct live *live);

/* One look; look->samples is kept for the next one, live_look_free frees it. Faults of
 * extents_each. */
fault_code live_take(struct live *live, struct live_look *look, struct fault *fault);
void live_look_free(struct live_look *look);
void live_close(struct live *live);
