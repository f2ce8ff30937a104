/*
 * How much memory a process may use, and how much its control groups use:
 * files that are opened once and read many times.
 */
#pragma once

#include "host/procfs.h"

#include <stdbool.h>
#include <stdint.h>

enum { LIMITS_GROUPS = 16 };

/* One control group on the way from the process to the root. */
struct limit_group {
    int usage_fd, stat_fd;
    int hard_fd, high_fd; /* its limits; -1: it has no such file */
    bool v2;
    uint64_t limit; /* bytes; UINT64_MAX: none */
};

struct limits {
    struct limit_group groups[LIMITS_GROUPS]; /* innermost first */
    size_t count;
    int machine_fd;   /* -1: not open; to be set so before limits_close */
    uint64_t machine; /* the memory of the machine, bytes */
};

/* What is used of what may be used, bytes. */
struct limit_use {
    uint64_t used, limit;
};

/* Looks for the groups and their limits. With none that has a limit the machine is the one. */
void limits_open(struct limits *limits, const struct procfs *proc, pid_t pid);
void limits_close(struct limits *limits);
/* Reads the limits of the same groups again: they may be changed at any time. */
void limits_renew(struct limits *limits);

/* The smallest limit on the way to the root; without one, the memory of the machine. */
uint64_t limits_smallest(const struct limits *limits);

/*
 * The group, of those with a limit, that is nearest to it; without one, the
 * machine. Used is what is left when the kernel has taken back what it can
 * easily: the working set, without inactive pages of files. Below `exact` (0
 * to 1) of a limit these are not asked for, and used is at most too large.
 */
bool limits_use(const struct limits *limits, double exact, struct limit_use *out);

/* The working set of the innermost group; without a group, of the machine. */
bool limits_own_use(const struct limits *limits, uint64_t *used);

/* The parsers, of len bytes each. */

/* "max", or a number of bytes; beyond what a machine can have: UINT64_MAX. */
bool limit_parse(const char *text, size_t len, uint64_t *bytes);
/* memory.stat: the inactive pages of files of the group and those below it, bytes. */
bool limit_inactive_parse(const char *text, size_t len, bool v2, uint64_t *bytes);
/* /proc/meminfo: used is what is not available. */
bool limit_meminfo_parse(const char *text, size_t len, struct limit_use *out);
/* /proc/PID/statm: resident pages. */
bool limit_statm_parse(const char *text, size_t len, uint64_t *pages);
