/* What jemalloc counts: the gauges, and its own report (malloc_stats_print). */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/hooks.h"
#include "jemalloc/sink.h"

/* stats.* after a write of epoch, bytes of the whole process (jemalloc(3)). */
struct stats_gauges {
    uint64_t allocated; /* by the program */
    uint64_t active;    /* in pages with allocations */
    uint64_t metadata;  /* jemalloc's own records; included in resident */
    uint64_t resident;  /* active, dirty and metadata pages: at most, as not all need be touched */
    uint64_t mapped;    /* in active extents */
    uint64_t retained;  /* address space kept, given back to the kernel otherwise; 4.2 */
    bool has_retained;
};

/*
 * Reads them in one list of calls, and of build the version and config.stats.
 * FAULT_STATS_ABSENT: built without statistics (config.stats).
 */
fault_code stats_read(struct injection *injection, const struct instance *instance,
                      struct build *build, struct stats_gauges *gauges, struct fault *fault);

/* The operations of that list for one of the caller's own: epoch, and the gauges. */
enum { STATS_GAUGE_OPS = 7 };
void stats_gauge_ops(struct ctl_op ops[STATS_GAUGE_OPS]);
/* Takes the gauges when they have run. FAULT_CTL_REFUSED: one was refused. */
fault_code stats_take_gauges(struct stats_gauges *gauges, const struct ctl_op ops[STATS_GAUGE_OPS],
                             struct fault *fault);

struct stats_request {
    const char *options;    /* of malloc_stats_print: "J" is JSON since 4.3, "" the text */
    remote_addr message_at; /* address of malloc_message; 0: it was not found */
    bool allow_slow;
    struct hooks_consent *consent; /* NULL: not given */
    struct sink *sink;             /* the report is appended */
};

/*
 * Makes the held thread call malloc_stats_print. Nothing is written in the
 * target.
 *
 * Without executable memory the report can only be taken on its way to
 * descriptor 2. Then a function that the program has put into malloc_message
 * would run instead (FAULT_STATS_MESSAGE); and up to 5.2.1 each of its pieces,
 * 30,000 and more, would be a stop (FAULT_STATS_SLOW, unless allowed).
 *
 * FAULT_TOO_LARGE: more than the sink takes. FAULT_INTERNAL: nothing was
 * reported. FAULT_HOOKS: its buffer comes from an arena with extent hooks of
 * the application (hooks.h).
 */
fault_code stats_print(struct injection *injection, const struct instance *instance,
                       const struct stats_request *request, struct fault *fault);
