/*
 * The text of experimental.prof_recent.alloc_dump (5.3.0 to the development branch,
 * prof_recent.c): one line, without blanks, the oldest record first.
 *
 *   {"sample_interval":524288,"recent_alloc_max":1000,"recent_alloc":[
 *     {"size":20000,"usize":20480,"released":true,
 *      "alloc_thread_uid":3,"alloc_thread_name":"worker","alloc_time":22916100335212,
 *      "alloc_trace":["0x7fee46053e30",...],
 *      "dalloc_thread_uid":3,"dalloc_thread_name":"worker","dalloc_time":22916104335212,
 *      "dalloc_trace":["0x7fee46053e30",...]},...]}
 *
 * The members dalloc_* are missing without a release, and if jemalloc could not record
 * it; a name is missing if the thread has none. Names are not escaped, so the text may be
 * no JSON, and since they are printed into 256 bytes, a long one has no closing quote.
 */
#pragma once

#include "base/arena.h"
#include "base/fault.h"
#include "base/table.h"

/* A thread, as jemalloc numbers it: its uid is no thread id. */
struct recent_thread {
    uint64_t uid;
    const char *name; /* NULL: none */
};

/* The allocation, or the release, of one object. */
struct recent_event {
    struct recent_thread thread;
    uint64_t time_ns; /* of the clock in struct recent_switch */
    uint32_t stack;   /* index in stacks; TABLE_NONE: none */
};

struct recent_record {
    uint64_t size, usable; /* bytes: requested, and of its size class */
    bool released;
    bool has_release; /* released, and jemalloc has recorded how */
    struct recent_event allocation, release;
};

/* A distinct stack: return addresses, innermost first. */
struct recent_stack {
    uint32_t first, depth; /* range in frames; depth > 0 */
};

struct recent_list {
    uint64_t period; /* bytes between two samples on average */
    int64_t max;     /* records that the list can have; -1: no limit */
    struct recent_record *records;
    struct recent_stack *stacks;
    uint64_t *frames;
    size_t count, capacity, stack_count, stack_capacity, frame_count, frame_capacity;
    struct table table; /* of the stacks */
    struct arena names;
};

/*
 * Parses the text, which is not kept. Its size bounds the memory. FAULT_RECENT_TEXT: it
 * is not of that form, with the position. FAULT_INTERNAL: out of memory. Call
 * recent_list_free in every case.
 */
fault_code recent_list_parse(struct recent_list *list, const char *text, size_t len,
                             struct fault *fault);
void recent_list_free(struct recent_list *list);
