/* The processes that are meant: given by their pids, or found by what they are. */
#pragma once

#include "host/selector.h"
#include "jemalloc/selection.h"

struct targets_request {
    bool search;              /* for what the selector matches; else the pids are taken */
    struct selector selector; /* *at: the process that the search reads */
    bool several;             /* more than one process may match */
    const pid_t *pids;
    size_t pid_count;
    uint64_t timeout_ns; /* of the search */
    /*
     * A read of process *selector.at never returns (run/stall_guard.h).
     * NULL: stalls are not looked for.
     */
    int (*stalled)(void *ctx, const struct fault *fault);
    void *ctx;
};

struct targets {
    struct target_pin *pins;
    size_t count;
    struct selection selection; /* of a search; the pins of its list have been taken */
};

/*
 * Finds and pins them; targets_free in each case. Pids are taken as they are,
 * each once. FAULT_SEVERAL: several match, where one may; none is pinned.
 * Otherwise the faults of selection_find.
 */
fault_code targets_find(struct targets *targets, const struct targets_request *request,
                        struct fault *fault);
void targets_free(struct targets *targets);
