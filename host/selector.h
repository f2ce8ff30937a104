/*
 * Which processes are meant, by what the kernel tells of each: its name, its
 * container, its control group, those that started it.
 */
#pragma once

#include "host/container.h"
#include "host/processes.h"

/* What is NULL or 0 selects nothing; all that is given must hold. */
struct selector {
    const char *name;      /* see selector_name_is */
    const char *container; /* an id, or its beginning: see container_is */
    const char *cgroup;    /* see cgroup_members */
    const pid_t *roots;    /* these processes and their descendants */
    size_t root_count;
    bool own_too;            /* also the tool itself and those that started it, for a mere list */
    const char *cgroup_root; /* NULL: CGROUP_ROOT */
    volatile pid_t *at;      /* gets the process that is just looked at; NULL: nobody asks */
};

struct matches {
    struct processes processes; /* that match, in order */
    size_t looked;              /* processes; no threads of the kernel; unknown with own_too */
    size_t own;                 /* of those that match, left out: the tool itself, its ancestors */
    struct container containers[2]; /* that the id stands for: several if it is too short */
};

/*
 * Lists what matches now; matches_free releases it. The tool itself and its
 * ancestors (shell, sudo) are left out, unless they are among the roots.
 * FAULT_NO_GROUP: there is no such control group. FAULT_AMBIGUOUS: the id is
 * the beginning of those of several containers, two of which are in *matches.
 */
fault_code selector_list(const struct selector *selector, const struct procfs *proc,
                         struct matches *matches, struct fault *fault);
void matches_free(struct matches *matches);

/*
 * Does this process have the name and the container? They are looked at again
 * behind a pidfd: in the list the pid may have been another process's.
 */
bool selector_holds(const struct selector *selector, const struct procfs *proc, pid_t pid);

/*
 * Is `name` the name of the process: its comm, or the last part of the path of
 * its program or of its argv[0]? A comm is cut off at 15 bytes, so that a longer
 * name is found by the other two alone. A name with a slash must be the whole
 * path. The process can choose its comm and argv[0].
 */
bool selector_name_is(const struct procfs *proc, pid_t pid, const char *name);
