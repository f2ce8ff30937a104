/* The processes to work on: given by their pids, or found by a selector. */
#pragma once

#include "host/selector.h"
#include "jemalloc/selection.h"

struct targets_request {
    bool search;              /* for matches of the selector; else the pids are taken */
    struct selector selector; /* *at: the process that the search reads */
    bool any_allocator;       /* see selection_find */
    bool several;             /* more than one process may match */
    bool sampling;            /* of several: only those in which profiling is on, as far as known */
    const pid_t *pids;
    size_t pid_count;
    uint64_t timeout_ns; /* of the search */
    /*
     * Called if a read of process *selector.at does not return
     * (run/stall_guard.h). NULL: stalls are not detected.
     */
    int (*stalled)(void *ctx, const struct fault *fault);
    void *ctx;
};

struct targets {
    struct target_pin *pins;
    size_t count;
    struct selection selection; /* result of a search, without its pins */
};

/*
 * Finds and pins them; targets_free in each case. Each pid is taken once,
 * without a check. FAULT_SEVERAL: several match where only one may; none is
 * pinned. Other faults: those of selection_find.
 */
fault_code targets_find(struct targets *targets, const struct targets_request *request,
                        struct fault *fault);
void targets_free(struct targets *targets);
