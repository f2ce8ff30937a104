/*
 * How much memory a process may use, and how much its cgroups use. The files are
 * opened once and read many times.
 */
#pragma once

#include "host/procfs.h"

#include <stdbool.h>
#include <stdint.h>

enum { LIMITS_GROUPS = 16 };

/* A cgroup on the path from the process to the root. */
struct limit_group {
    size_t level; /* so many levels above the process's own */
    int usage_fd, stat_fd;
    int hard_fd, high_fd; /* its limits; -1: no such file */
    bool v2;
    uint64_t limit; /* bytes; UINT64_MAX: none */
};

struct limits {
    struct limit_group groups[LIMITS_GROUPS]; /* innermost first */
    size_t count;
    int machine_fd;   /* -1: not open; set it to -1 before the first limits_close */
    uint64_t machine; /* the memory of the machine, bytes */
};

/*
 * Memory in use and the most that may be used, bytes. Of a cgroup it is the use without inactive
 * file pages, which the kernel reclaims first: the working set of Docker and Kubernetes. Of the
 * machine it is what is not available.
 */
struct limit_use {
    uint64_t used, limit;
    uint64_t cached; /* of used: active file pages, which the kernel can reclaim; 0: not read */
    size_t level;    /* of the cgroup */
};

/*
 * Finds the cgroups and reads their limits. If none has a limit, the machine's
 * memory is the limit.
 */
void limits_open(struct limits *limits, const struct procfs *proc, pid_t pid);
void limits_close(struct limits *limits);
/* Reads the limits of the same cgroups again: they may change at any time. */
void limits_renew(struct limits *limits);

/* Returns the smallest limit up to the root; without one, the memory of the machine. */
uint64_t limits_smallest(const struct limits *limits);

/*
 * Fills *out for the cgroup that is nearest to its limit; if none has a limit, for
 * the machine. Below the share `exact` (0 to 1) of a limit the
 * inactive pages are not read, so that used may be too large.
 */
bool limits_use(const struct limits *limits, double exact, struct limit_use *out);

/* Returns the working set of the innermost cgroup; without a cgroup, of the machine. */
bool limits_own_use(const struct limits *limits, uint64_t *used);

/* The parsers; each takes a text of len bytes. */

/* Parses "max" or a number of bytes; returns UINT64_MAX for more than any machine can have. */
bool limit_parse(const char *text, size_t len, uint64_t *bytes);
/* Parses memory.stat: the inactive or the active file pages of the cgroup and those below it. */
bool limit_files_parse(const char *text, size_t len, bool v2, bool active, uint64_t *bytes);
/* Parses /proc/meminfo: memory that is not available counts as used. */
bool limit_meminfo_parse(const char *text, size_t len, struct limit_use *out);
/* Parses /proc/PID/statm: resident pages. */
bool limit_statm_parse(const char *text, size_t len, uint64_t *pages);

/* ---- what has happened to the memory cgroup of a process: kills, and its peak ---- */

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
