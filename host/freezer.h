/* Whether a process is frozen together with its cgroup (docker pause, systemctl freeze). */
#pragma once

#include "host/procfs.h"

#include <stdbool.h>

enum { FREEZER_PATH_MAX = 512 };

/* What froze a process. */
enum freezer {
    FREEZER_NONE,   /* nothing: it is not frozen */
    FREEZER_V2,     /* a cgroup of cgroup v2 */
    FREEZER_V1,     /* the freezer controller of cgroup v1 */
    FREEZER_UNSEEN, /* a cgroup that the tool does not see */
};

/*
 * Returns FREEZER_V1 or FREEZER_V2 if the process's cgroup is frozen, and the
 * cgroup's directory, from the tool's own root, in path. Looks at the usual places:
 * the v1 freezer hierarchy, and cgroup v2 alone or beside v1. Anything not found
 * there counts as not frozen.
 */
enum freezer freezer_of_group(const struct procfs *proc, pid_t pid, char *path, size_t size);

/*
 * True if the state of each thread shows that only a freezer can have stopped it.
 * For a tool that does not see the hierarchies, such as one in another container.
 * Looks only at the first thread of a process that runs.
 */
bool freezer_of_threads(const struct procfs *proc, pid_t pid);
