/*
 * A heap profile as jemalloc writes it (prof_data.c, prof_sys.c, 4.0 to 5.3.1):
 *
 *   heap_v2/524288                                    bytes between samples
 *     t*: 28: 4526080 [0: 0]                          all threads: in use [accumulated]
 *     t3: 28: 4526080 [0: 0] name                     one thread
 *   @ 0x7f1 0x55d0                                    a stack, innermost call first
 *     t*: 28: 4526080 [0: 0]
 *     t3: 28: 4526080 [0: 0]
 *   ...
 *   MAPPED_LIBRARIES:                                 /proc/PID/maps
 *
 * and in the form of 3.x and of tcmalloc, from which it came:
 *
 *   heap profile:   28: 4526080 [  0: 0] @ heap_v2/524288
 *   28: 4526080 [  0: 0] @ 0x7f1 0x55d0
 */
#pragma once

#include "base/fault.h"
#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* jemalloc keeps this many frames of a stack (PROF_BT_MAX; since 5.3.1 opt.prof_bt_max). */
enum { HEAP_DEPTH_LIMIT = 128 };

/* What stands between two numbers of a line and what was allocated. */
enum heap_sampling {
    HEAP_POISSON, /* a byte in `period` on average, wherever it lies (heap_v2) */
    HEAP_UNIFORM, /* tcmalloc's first: nothing is missed that is larger than the period */
    HEAP_EXACT,   /* every allocation is in the profile */
};

/* As written, before heap_estimate. */
struct heap_counts {
    uint64_t objects, bytes;             /* in use */
    uint64_t total_objects, total_bytes; /* accumulated; 0 without opt.prof_accum */
};

/* What was allocated, as far as the samples tell. */
struct heap_estimate {
    double objects, bytes;
    double bytes_variance, objects_variance; /* bytes squared; 0: exact */
};

struct heap_stack {
    uint32_t first, depth; /* in frames */
};

struct heap_line {
    uint32_t stack;
    uint32_t thread; /* in threads; of the lines `t*`: not used */
    struct heap_counts counts;
};

struct heap_thread {
    uint64_t uid; /* jemalloc's own number, no thread id */
    char *name;   /* or NULL */
};

/* Memory that held code, as in the maps; neighbours of one file that continue each other are one.
 */
struct heap_mapping {
    remote_addr start, end;
    uint64_t offset; /* bytes into the file */
    char *path;      /* without " (deleted)"; "" for memory of no file */
    char *text;      /* as it stands in the maps */
};

struct heap_profile {
    enum heap_sampling sampling;
    uint64_t period; /* bytes; 1: every allocation */
    uint64_t *addresses;
    size_t address_count; /* distinct, as written: return addresses */
    uint32_t *frames;     /* in addresses; of all stacks, innermost first */
    size_t frame_count;
    struct heap_stack *stacks;
    size_t stack_count;
    struct heap_line *lines; /* `t*`: one a stack */
    size_t line_count;
    struct heap_line *thread_lines; /* one a stack and thread */
    size_t thread_line_count;
    struct heap_thread *threads;
    size_t thread_count;
    struct heap_mapping *mappings;
    size_t mapping_count;
    struct heap_counts header; /* of the header's `t*` */
    uint32_t deepest;          /* frames of the longest stack */
    size_t odd_lines;          /* that are none of the above, and were passed over */
    bool accumulates;          /* some line has accumulated counts */
    bool has_maps;
    bool cut_short; /* the text ends within a line, which was left out */
};

/*
 * Parses a text, which is not kept. FAULT_PROFILE: it is no heap profile.
 * FAULT_INTERNAL: out of memory. Releasing is heap_free's in every case.
 */
fault_code heap_parse(struct heap_profile *profile, const char *text, size_t len,
                      struct fault *fault);
void heap_free(struct heap_profile *profile);

/*
 * Undoes the sampling of one pair of numbers. A sum of lines must not be
 * estimated: only the sum of estimates is one (jemalloc's
 * doc_internal/PROFILING_INTERNALS.md, jeprof's AdjustSamples).
 */
struct heap_estimate heap_estimate(const struct heap_profile *profile, uint64_t objects,
                                   uint64_t bytes);

/* Has jemalloc probably left out the outermost calls of a stack? */
bool heap_stack_cut(const struct heap_profile *profile, const struct heap_stack *stack);
