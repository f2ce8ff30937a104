/*
 * Looks for jemalloc in many processes, each in a worker that can be given up
 * (host/pool.h): whatever one of them does, the others are examined.
 */
#pragma once

#include "base/interruptions.h"
#include "host/pool.h"
#include "host/selector.h"
#include "jemalloc/census.h"

enum examined_as {
    EXAMINED_NOT,     /* not reached before the end of the search */
    EXAMINED_OTHER,   /* does not match, or has ended */
    EXAMINED_OWN,     /* matches, and is in matches->own_list */
    EXAMINED_MATCH,   /* code is that of census_look */
    EXAMINED_GIVEN_UP /* end says why */
};

struct examined_process {
    struct census_entry entry;
    struct container container;
};

struct examined_fault {
    struct fault fault;
    char stage[64]; /* fault.stage */
};

struct examined {
    pid_t pid;
    enum examined_as as;
    bool begun;                /* EXAMINED_NOT: at the end it was being examined */
    bool matches;              /* EXAMINED_MATCH, or it is known of what was given up */
    enum pool_end end;         /* EXAMINED_GIVEN_UP */
    long call;                 /* POOL_STUCK: the system call in which the worker was; or -1 */
    int signal;                /* POOL_LOST: what killed the worker; or 0 */
    fault_code code;           /* EXAMINED_MATCH */
    struct target_pin pin;     /* of a match; pid 0: of a list, or the worker did not come to it */
    struct container selected; /* with selector->container: the one that matches */
    struct examined_process *found; /* FAULT_NONE */
    struct examined_fault *odd;     /* FAULT_INTERNAL, FAULT_UNSUPPORTED; may be NULL */
};

struct examination {
    struct examined *list; /* in the order of the matches */
    size_t count;
};

/*
 * Examines the processes that selector_list has listed with match_later; the list of
 * this selector, and the census, must be the same. pin: matches are pinned, so that all
 * that is said of one concerns one process. The census learns of each new file.
 * Fails only with FAULT_INTERNAL, if the tool itself lacks memory. examination_free in
 * each case.
 */
fault_code examination_run(struct examination *examination, const struct matches *matches,
                           const struct selector *selector, bool pin, struct procfs *proc,
                           struct census *census, const struct deadline *deadline,
                           struct fault *fault);
void examination_free(struct examination *examination);
