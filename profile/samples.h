/*
 * One profile, or two to be compared, ready to be shown: stacks of locations,
 * filtered, and what they hold, with the sampling undone.
 */
#pragma once

#include "profile/filter.h"

/* In pprof's order. */
enum value {
    VALUE_TOTAL_OBJECTS, /* alloc_objects */
    VALUE_TOTAL_BYTES,   /* alloc_space */
    VALUE_OBJECTS,       /* inuse_objects */
    VALUE_BYTES,         /* inuse_space */
    VALUE_KINDS,
};

/* Sums do not overflow: they stop at the largest number. */
struct amount {
    int64_t now, base; /* bytes or objects; base: 0 when nothing is compared */
    double variance;   /* of now - base, from the sampling */
};

struct sample {
    uint32_t first, depth; /* in calls; innermost first */
    uint32_t thread;       /* in threads, or TABLE_NONE; of a comparison always that */
    uint64_t size;         /* mean bytes of an object of the stack */
    struct amount values[VALUE_KINDS];
};

struct sample_thread {
    uint64_t uid;
    const char *name; /* "": none */
};

struct samples_options {
    struct filter filter;
    bool by_thread;      /* a sample a stack and thread */
    bool thread_frames;  /* with by_thread: the thread's name as the outermost call */
    bool keep_allocator; /* leave the allocator's own calls in */
};

struct samples {
    struct locations locations;
    uint32_t first_location; /* of the profile's addresses; the base's have no fixed place */
    uint32_t *calls;         /* in locations */
    size_t call_count, call_room;
    struct sample *list;
    size_t count, room;
    struct sample_thread *threads; /* of the profile, not of the base */
    size_t thread_count;
    uint64_t period; /* bytes; of the base too if it is another: base_period */
    uint64_t base_period;
    bool compares, accumulates;
    size_t cut, trimmed; /* stacks that jemalloc has cut; calls that were left out */
};

/*
 * Builds the samples of a profile, less those of base unless it is NULL.
 * symbols, base_symbols: see locations_symbols. Nothing of them is kept.
 * False: out of memory; samples_free releases everything in each case.
 */
bool samples_build(struct samples *samples, const struct samples_options *options,
                   const struct heap_profile *profile, struct symbols *symbols,
                   const struct heap_profile *base, struct symbols *base_symbols);
void samples_free(struct samples *samples);

/* *sum += *part */
void amount_add(struct amount *sum, const struct amount *part);
/* now - base */
int64_t amount_growth(const struct amount *amount);
/* Two standard deviations: what the sampling alone may well have done; 0: exact. */
double amount_error(const struct amount *amount);
/* Of all samples. */
struct amount samples_total(const struct samples *samples, enum value value);
