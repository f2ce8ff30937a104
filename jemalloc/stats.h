/* Reads jemalloc's statistics: the gauges, and its own report (malloc_stats_print). */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/hooks.h"
#include "jemalloc/sink.h"

/* stats.* after a write of epoch, in bytes, for the whole process (jemalloc(3)). */
struct stats_gauges {
    uint64_t allocated; /* in use by the program */
    uint64_t active;    /* in pages with allocations */
    uint64_t metadata;  /* jemalloc's own records; part of resident */
    uint64_t resident;  /* active, dirty, metadata and pinned pages: an upper limit, as some may be
                           untouched */
    uint64_t mapped;    /* in active extents */
    uint64_t retained;  /* address space kept for later use; since 4.2 */
    /* Free pages that extent hooks have declared pinned: no purge returns them; since 5.4. */
    uint64_t pinned;
    bool has_retained, has_pinned;
};

/*
 * Reads the gauges, and the version and config.stats of build, in one list of
 * calls. FAULT_STATS_ABSENT: built without statistics (config.stats).
 */
fault_code stats_read(struct injection *injection, const struct instance *instance,
                      struct build *build, struct stats_gauges *gauges, struct fault *fault);

enum ctl_gauge {
    CTL_ALLOCATED,
    CTL_ACTIVE,
    CTL_METADATA,
    CTL_RESIDENT,
    CTL_MAPPED,
    CTL_RETAINED,
    CTL_PINNED,
    CTL_GAUGES
};

struct stats_request {
    const char *options;    /* for malloc_stats_print: "J" is JSON (since 4.3), "" is text */
    remote_addr message_at; /* address of malloc_message; 0: it was not found */
    bool allow_slow;
    struct hooks_consent *consent; /* NULL: not given */
    struct sink *sink;             /* the report is appended */
};

/*
 * Makes the stopped thread call malloc_stats_print and collects its report. The
 * target writes nothing.
 *
 * Without executable memory the report can only be intercepted when it is
 * written to file descriptor 2. Then a function that the program has stored in
 * malloc_message would run instead (FAULT_STATS_MESSAGE); and up to 5.2.1 each
 * of its 30,000 or more pieces would be a stop (FAULT_STATS_SLOW, unless
 * allowed).
 *
 * FAULT_TOO_LARGE: the report does not fit into the sink. FAULT_INTERNAL:
 * nothing was reported. FAULT_HOOKS: its buffer comes from an arena with extent
 * hooks of the application (hooks.h).
 */
fault_code stats_print(struct injection *injection, const struct instance *instance,
                       const struct stats_request *request, struct fault *fault);
