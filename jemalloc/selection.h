/*
 * Finds the targets that an operator selects by a name, a container, a cgroup or
 * a parent: the processes that match and use jemalloc. Each is pinned, so that
 * later steps concern this process or none.
 *
 * Nothing is stopped. It can be repeated to find restarted processes: with the
 * same census only new files are examined.
 */
#pragma once

#include "attach/deadline.h"
#include "host/selector.h"
#include "jemalloc/census.h"

struct selected {
    struct target_pin pin;
    struct census_entry entry;
    struct container container;
    bool unreadable; /* no permission to see whether it uses jemalloc: entry has stat and status
                        only */
};

struct selection {
    struct selected *list; /* by ascending pid */
    size_t count, capacity;
    size_t looked;                  /* processes of the host */
    size_t matched;                 /* of those: match the selector */
    size_t unreadable;              /* of the matches: may not be read */
    size_t without;                 /* of the matches: do not use jemalloc */
    size_t own;                     /* of the matches: left out, see selector_list */
    struct container containers[2]; /* see struct matches */
};

/*
 * Fills the selection; selection_free releases it, also after a failure. A
 * process that may not be read is selected only by its name, as nobody knows
 * whether it uses jemalloc. If a name matches only one process, and it does not
 * use jemalloc, it is selected too, so that the reason can be reported.
 *
 * FAULT_NO_MATCH: no process; the counts show why. FAULT_DENIED: none that may be
 * read. FAULT_NO_ALLOCATOR: several match, none uses jemalloc. FAULT_NO_GROUP,
 * FAULT_AMBIGUOUS: see selector_list. FAULT_INTERRUPTED, FAULT_TOO_LATE: the
 * operator or the deadline ended the search. deadline may be NULL.
 */
fault_code selection_find(struct selection *selection, const struct selector *selector,
                          struct procfs *proc, struct census *census,
                          const struct deadline *deadline, struct fault *fault);
void selection_free(struct selection *selection);
