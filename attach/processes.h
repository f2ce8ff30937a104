/* The processes of the host, as /proc lists them. */
#pragma once

#include "attach/fault.h"
#include "attach/procfs.h"

#include <stddef.h>

struct processes {
    pid_t *list; /* ascending, as the kernel lists them */
    size_t count;
};

/* Lists the pids, kernel threads and zombies among them. processes_free releases them. */
enum fault_code processes_list(struct processes *processes, const struct procfs *proc,
                               struct fault *fault);
void processes_free(struct processes *processes);
