/* Selects processes by what the kernel shows of each: name, container, cgroup, ancestors. */
#pragma once

#include "host/container.h"
#include "host/processes.h"

/* A member that is NULL or 0 selects nothing. A process must match all the others. */
struct selector {
    const char *name;      /* see selector_name_is */
    const char *container; /* an id, or a prefix of one: see container_is */
    const char *cgroup;    /* see cgroup_members */
    const pid_t *roots;    /* these processes and their descendants */
    size_t root_count;
    bool match_later;        /* name and container are left to selector_matches, and so is own */
    bool own_too;            /* also match the tool itself and its ancestors: for listing only */
    const char *cgroup_root; /* NULL: CGROUP_ROOT */
    volatile pid_t *at;      /* gets the pid of the process being looked at; may be NULL */
};

struct matches {
    struct processes processes; /* those that match, in ascending order */
    size_t looked; /* processes looked at, without kernel threads; unknown with own_too */
    size_t own;    /* matches that were left out: the tool itself and its ancestors */
    struct processes own_list;      /* with match_later: those that are in the list nonetheless */
    struct container containers[2]; /* containers with that id; two if it is ambiguous */
};

/*
 * Lists the processes that match now; matches_free releases the list. Leaves out
 * the tool itself and its ancestors (shell, sudo), unless they are among the roots.
 *
 * FAULT_NO_GROUP: there is no such cgroup. FAULT_AMBIGUOUS: the id is a prefix of
 * the ids of several containers; two of them are in *matches.
 */
fault_code selector_list(const struct selector *selector, const struct procfs *proc,
                         struct matches *matches, struct fault *fault);
void matches_free(struct matches *matches);

/*
 * True if the process has the name and the container, which *container becomes. Check
 * again once a pidfd is open: when the list was made, the pid may have belonged to
 * another process.
 */
bool selector_matches(const struct selector *selector, const struct procfs *proc, pid_t pid,
                      struct container *container);

/* Keeps the first two containers that differ, of those that match. */
void selector_note_container(struct container containers[2], const struct container *container);

/*
 * True if `name` is the process's comm, or the last component of the path of its
 * program or of its argv[0]. The kernel cuts a comm off at 15 bytes, so only the
 * other two match a longer name. A name with a slash must match a whole path. The
 * process can choose its comm and argv[0].
 */
bool selector_name_is(const struct procfs *proc, pid_t pid, const char *name);
