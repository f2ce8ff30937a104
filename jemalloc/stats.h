/* What jemalloc counts: the gauges, and its own report (malloc_stats_print). */
#pragma once

#include "jemalloc/ctl.h"
#include "jemalloc/sink.h"

/* stats.* after a write of epoch, bytes of the whole process (jemalloc(3)). */
struct stats_gauges {
    char version[128];
    uint64_t allocated; /* by the program */
    uint64_t active;    /* in pages with allocations */
    uint64_t metadata;  /* jemalloc's own records; included in resident */
    uint64_t resident;  /* active, dirty and metadata pages: at most, as not all need be touched */
    uint64_t mapped;    /* in active extents */
    uint64_t retained;  /* address space kept, given back to the kernel otherwise; 4.2 */
    bool has_retained;
};

/*
 * Reads them in one list of calls. FAULT_STATS_ABSENT: built without
 * statistics (config.stats).
 */
enum fault_code stats_read(struct injection *injection, const struct instance *instance,
                           struct stats_gauges *gauges, struct fault *fault);

/*
 * Appends to the sink what malloc_stats_print(..., options) reports: "J" is
 * JSON since 4.3, "" the text. Nothing is written in the target. message_at is
 * the address of malloc_message, 0 if it was not found: where the report can
 * only be taken on its way to descriptor 2 (no executable memory), a function
 * that the program has put there would run instead, and FAULT_STATS_MESSAGE
 * refuses. FAULT_TOO_LARGE: more than the sink takes. FAULT_INTERNAL: nothing
 * was reported.
 */
enum fault_code stats_print(struct injection *injection, const struct instance *instance,
                            const char *options, remote_addr message_at, struct sink *sink,
                            struct fault *fault);
