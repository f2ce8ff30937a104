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
 *   ...
 *   # build-id 55d0c8a01000 8f3a...                   of the file at that address: by jeattach
 *
 * with the names of the addresses before it, as jeprof --raw and jeattach write them,
 *
 *   --- symbol
 *   binary=/srv/app
 *   0x000055d0 main--fill                             a call, then what is inlined into it
 *   ---
 *   --- heap
 *   heap_v2/524288
 *
 * and in the form of 3.x and of tcmalloc, from which it came:
 *
 *   heap profile:   28: 4526080 [  0: 0] @ heap_v2/524288
 *   28: 4526080 [  0: 0] @ 0x7f1 0x55d0
 */
#pragma once

#include "base/arena.h"
#include "base/fault.h"
#include "base/util.h"

#include <stddef.h>

struct build_id;     /* elf/image.h */
struct symbol_given; /* profile/symbols/symbols.h */

/* jemalloc keeps this many frames of a stack (PROF_BT_MAX; since 5.3.1 opt.prof_bt_max). */
enum { HEAP_DEPTH_LIMIT = 128 };

/* Of a deeper stack the innermost frames are kept, and heap_stack_cut says so. */
enum { HEAP_DEPTH_KEPT = 256 << 10 };

/*
 * The frames of all stacks of a file. Parsed, as calls and by their names they are kept three
 * times, in 4 bytes each: 384 MiB at most.
 */
enum { HEAP_FRAMES_LIMIT = 32 << 20 };

/* The relation between the numbers of a line and the allocations. */
enum heap_sampling {
    HEAP_POISSON, /* one byte in `period` on average, at any position (heap_v2) */
    HEAP_UNIFORM, /* tcmalloc's oldest form: no allocation larger than the period is missed */
    HEAP_EXACT,   /* every allocation is in the profile */
};

/* Numbers as written, before heap_estimate. */
struct heap_counts {
    uint64_t objects, bytes;             /* in use */
    uint64_t total_objects, total_bytes; /* accumulated; 0 without opt.prof_accum */
};

/* The estimated allocations. */
struct heap_estimate {
    double objects, bytes;
    double bytes_variance, objects_variance; /* bytes squared; 0: exact */
};

struct heap_stack {
    uint32_t first, depth; /* range in frames */
};

struct heap_line {
    uint32_t stack;
    uint32_t thread; /* index in threads; unused in the lines `t*` */
    struct heap_counts counts;
};

struct heap_thread {
    uint64_t uid; /* jemalloc's own number, not a thread id */
    char *name;   /* or NULL */
};

/*
 * A mapping that contained code, as in the maps; adjacent mappings that
 * continue the same file are merged.
 */
struct heap_mapping {
    remote_addr start, end;
    uint64_t offset;                 /* bytes into the file */
    const char *path;                /* without " (deleted)"; "" for anonymous memory */
    const char *text;                /* the line of the maps */
    uint64_t inode;                  /* 0: unknown, as in a core file */
    const struct build_id *build_id; /* NULL: unknown */
};

struct heap_profile {
    enum heap_sampling sampling;
    uint64_t period; /* bytes; 1: every allocation */
    uint64_t *addresses;
    size_t address_count; /* number of distinct addresses, as written: return addresses */
    uint32_t *frames;     /* indices in addresses; of all stacks, innermost first */
    size_t frame_count;
    struct heap_stack *stacks;
    size_t stack_count;
    struct heap_line *lines; /* `t*`: one per stack */
    size_t line_count;
    struct heap_line *thread_lines; /* one per stack and thread */
    size_t thread_line_count;
    struct heap_thread *threads;
    size_t thread_count;
    struct heap_mapping *mappings;
    size_t mapping_count;
    struct symbol_given *names; /* in order of addresses; with any, files are not read for names */
    size_t name_count;
    size_t header_at; /* where the header is in the text, behind the names */
    struct arena name_texts;
    struct arena paths;        /* of the mappings; neighbours share one */
    struct heap_counts header; /* of the header's `t*` */
    uint32_t deepest;          /* frames of the longest stack */
    size_t odd_lines;          /* lines that are none of the above and were skipped */
    size_t odd_maps;           /* lines of MAPPED_LIBRARIES that were skipped, or in part */
    bool accumulates;          /* a line has accumulated counts */
    bool has_maps;
    bool cut_short; /* the text ends within a line, which was ignored */
    bool maps_cut;  /* it ends before the maps of some addresses */
};

/*
 * Parses a text, which is not kept. FAULT_PROFILE: it is not a heap profile.
 * FAULT_INTERNAL: out of memory. Call heap_free in every case.
 */
fault_code heap_parse(struct heap_profile *profile, const char *text, size_t len,
                      struct fault *fault);

/* The owner of a text that is parsed for the last time. */
struct heap_reader {
    void (*passed)(void *ctx, const char *part, size_t len); /* this part is not read again */
    void *ctx;
};

/*
 * Does the same; tells the reader, unless it is NULL, which parts of the text may be freed. Keeps
 * thread_lines only with by_thread: there may be as many as stacks times threads.
 */
fault_code heap_parse_once(struct heap_profile *profile, const char *text, size_t len,
                           bool by_thread, const struct heap_reader *reader, struct fault *fault);
void heap_free(struct heap_profile *profile);

/*
 * Makes a profile of stacks, each with a line without amounts: ranges of words, return addresses
 * innermost first, of which deeper ones keep HEAP_DEPTH_KEPT. False: out of memory, or more than a
 * profile may have. Call heap_free in every case.
 */
bool heap_of_stacks(struct heap_profile *profile, const uint64_t *words,
                    const struct heap_stack *stacks, size_t count);

/*
 * Undoes the sampling for one pair of numbers. Do not estimate a sum of lines;
 * sum the estimates (jemalloc's doc_internal/PROFILING_INTERNALS.md, jeprof's
 * AdjustSamples).
 */
struct heap_estimate heap_estimate(const struct heap_profile *profile, uint64_t objects,
                                   uint64_t bytes);

/*
 * True if both are of one process, as far as the mappings tell: under ASLR those
 * of another one are elsewhere, except those of a fork.
 */
bool heap_same_process(const struct heap_profile *a, const struct heap_profile *b);
/* True if both are of one program, of the same file, with the same period. */
bool heap_same_program(const struct heap_profile *a, const struct heap_profile *b);
/* True if both have the same mappings, and no names of their own. */
bool heap_same_mappings(const struct heap_profile *a, const struct heap_profile *b);

/* True if jemalloc has probably left out the outermost calls of a stack. */
bool heap_stack_cut(const struct heap_profile *profile, const struct heap_stack *stack);
