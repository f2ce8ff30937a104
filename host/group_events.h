/* What has happened to the memory cgroup of a process: kills, and its peak. */
#pragma once

#include "host/procfs.h"

#include <stdbool.h>
#include <stdint.h>

struct group_events {
    bool known;         /* the next two were read */
    uint64_t oom_kills; /* processes of the cgroup, or of one below it, that the kernel killed */
    uint64_t high;      /* how often it was slowed down above memory.high; 0 in cgroup v1 */
    bool has_peak;
    uint64_t peak; /* the most memory that it has used, bytes; since 5.19 and in cgroup v1 */
};

/* Parses memory.events: "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n" (mm/memcontrol.c). */
bool group_events_parse(const char *text, size_t len, struct group_events *out);
/* Reads the innermost memory cgroup of the process, v1 or v2. Unknown members stay so. */
void group_events_read(const struct procfs *proc, pid_t pid, struct group_events *out);
