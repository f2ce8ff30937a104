/*
 * The targets that an operator means by a name, a container, a control group or
 * a parent: of the processes that match, those that use jemalloc, each pinned,
 * so that what is done later is done to this process or to none.
 *
 * Nothing is stopped. It can be done again at any time, to find what has been
 * restarted: with the same census only new files are looked into.
 */
#pragma once

#include "attach/deadline.h"
#include "host/selector.h"
#include "jemalloc/census.h"

struct selected {
    struct target_pin pin;
    struct census_entry entry;
    struct container container;
    bool unreadable; /* whether it uses jemalloc may not be looked at: entry has stat and status */
};

struct selection {
    struct selected *list; /* by ascending pid */
    size_t count, room;
    size_t looked;     /* processes of the host */
    size_t matched;    /* of them, by the selector alone */
    size_t unreadable; /* of those: it may not be looked at whether they use jemalloc */
    size_t without;    /* of those: they use none */
    size_t own;        /* of those: left out, see selector_list */
    struct container containers[2]; /* see struct matches */
};

/*
 * Finds them; selection_free releases it, also after a failure. A process that
 * may not be read is one of them only if it was asked for by its name: nobody
 * knows whether it uses jemalloc. If all that a name matches is one process
 * without jemalloc, it is taken too, so that it can be said what it has instead.
 *
 * FAULT_NO_MATCH: none; the counts say why. FAULT_DENIED: none that may be read.
 * FAULT_NO_ALLOCATOR: several of that name, none with jemalloc. FAULT_NO_GROUP,
 * FAULT_AMBIGUOUS: see selector_list. FAULT_INTERRUPTED, FAULT_TOO_LATE:
 * the operator, or the deadline, was faster; deadline may be NULL.
 */
fault_code selection_find(struct selection *selection, const struct selector *selector,
                          struct procfs *proc, struct census *census,
                          const struct deadline *deadline, struct fault *fault);
void selection_free(struct selection *selection);
