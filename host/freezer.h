/* Is a process frozen with its control group (docker pause, systemctl freeze)? */
#pragma once

#include "host/procfs.h"

#include <stdbool.h>

enum { FREEZER_PATH_MAX = 512 };

/* How a process is seen to be frozen. */
enum freezer {
    FREEZER_NONE,   /* it is not */
    FREEZER_V2,     /* by a cgroup v2 */
    FREEZER_V1,     /* by the freezer controller of cgroup v1 */
    FREEZER_UNSEEN, /* by a cgroup that the tool does not see */
};

/*
 * FREEZER_V1 or FREEZER_V2, with the directory of the frozen group, from the root of
 * the tool's file tree, in path. Looks where the hierarchies are by convention: the freezer of
 * version 1, and version 2 alone or beside it. What is not found there is taken
 * for not frozen.
 */
enum freezer freezer_holds(const struct procfs *proc, pid_t pid, char *path, size_t size);

/*
 * The same by its threads alone, for a tool that does not see the hierarchies: in
 * another container. True only if each of them is where nothing but a freezer
 * holds it. Of one that runs it looks at the first thread.
 */
bool freezer_shows(const struct procfs *proc, pid_t pid);
