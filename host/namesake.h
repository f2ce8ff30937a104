/* Processes that have a given pid in a pid namespace below the tool's: in a container. */
#pragma once

#include "host/procfs.h"

struct namesakes {
    pid_t here[4]; /* their pids as the tool sees them, the first few */
    size_t count;  /* of all */
};

/* Looks through all of /proc; for a pid that does not exist here. */
void namesakes_find(struct namesakes *found, const struct procfs *proc, pid_t pid);
