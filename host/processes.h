/* The processes of the host, as /proc lists them. */
#pragma once

#include "base/fault.h"
#include "host/procfs.h"

#include <stdbool.h>
#include <stddef.h>

struct processes {
    pid_t *list; /* ascending */
    size_t count, room;
};

/* Lists the pids, kernel threads and zombies among them. processes_free releases them. */
fault_code processes_list(struct processes *processes, const struct procfs *proc,
                          struct fault *fault);
void processes_free(struct processes *processes);

/* Adds one, at the end; false: out of memory. */
bool processes_add(struct processes *processes, pid_t pid);
/* Puts them into ascending order, each once. */
void processes_sort(struct processes *processes);
/* Is it among them? They must be in order. */
bool processes_has(const struct processes *processes, pid_t pid);

/*
 * Adds a process, its parent and so on up to the first one that can be seen.
 * What cannot be read ends the line. Puts them into order. False: out of memory.
 */
bool processes_add_line(struct processes *processes, const struct procfs *proc, pid_t pid);

/*
 * Adds to `family` those of `all` that have one of it as an ancestor, by the
 * parents that they have now; a process whose parent has ended belongs to the
 * one that took it over. Both must be in order. False: out of memory.
 */
bool processes_add_descendants(struct processes *family, const struct processes *all,
                               const struct procfs *proc);
