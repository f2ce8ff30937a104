/*
 * Finds the targets that an operator selects by a name, a container, a cgroup or
 * a parent: the processes that match and use jemalloc, or all that match. Each is pinned, so that
 * later steps concern this process or none.
 *
 * Nothing is stopped. It can be repeated to find restarted processes: with the
 * same census only new files are examined.
 */
#pragma once

#include "jemalloc/examine.h"

struct selected {
    struct target_pin pin;
    struct census_entry entry;
    struct container container;
    bool unreadable; /* no permission to see whether it uses jemalloc: entry has stat and status
                        only */
    bool without;    /* it does not use jemalloc: the same */
};

/* A process that was given up: nobody knows whether it uses jemalloc. */
struct left_out {
    pid_t pid;
    char name[64];     /* untrusted; "": unknown */
    enum pool_end end; /* why; not POOL_DONE */
    long call;         /* see struct examined */
    int signal;
    bool matches; /* else that is unknown */
    bool chosen;  /* it is in the list nonetheless, because of its name */
};

/* Describes a process that was given up, or was not reached while it was examined. */
struct left_out left_out_describe(const struct examined *examined, const struct procfs *proc);

struct selection {
    struct selected *list; /* by ascending pid */
    size_t count, capacity;
    bool any_allocator;             /* the request */
    size_t looked;                  /* processes of the host */
    size_t matched;                 /* of those: match the selector */
    size_t unreadable;              /* of the matches: may not be read */
    size_t without;                 /* of the matches: do not use jemalloc */
    size_t own;                     /* of the matches: left out, see selector_list */
    struct container containers[2]; /* see struct matches */
    struct left_out *left;
    size_t left_count, left_capacity;
};

/*
 * Fills the selection; selection_free releases it, also after a failure. A
 * process that may not be read, or that was given up because it does not respond, is
 * selected only by its name, as nobody knows whether it uses jemalloc. If a name matches only one
 * process, and it does not use jemalloc, it is selected too, so that the reason can be reported.
 * any_allocator: all that match and may be read are selected.
 *
 * FAULT_NO_MATCH: no process; the counts show why. FAULT_DENIED: none that may be
 * read. FAULT_NO_ANSWER: none that answers. FAULT_NO_ALLOCATOR: several match, none
 * uses jemalloc. FAULT_NO_GROUP, FAULT_AMBIGUOUS: see selector_list. FAULT_INTERRUPTED,
 * FAULT_TOO_LATE: the operator or the deadline ended the search. deadline may be NULL.
 */
fault_code selection_find(struct selection *selection, const struct selector *selector,
                          bool any_allocator, struct procfs *proc, struct census *census,
                          const struct deadline *deadline, struct fault *fault);
/*
 * Takes those that were given up off the list, where they are because of their name.
 * FAULT_NO_ANSWER if no other is left.
 */
fault_code selection_drop_left_out(struct selection *selection, struct fault *fault);
void selection_free(struct selection *selection);
