/* What the memory of a cgroup consists of: what is in it beside one process. */
#pragma once

#include "host/procfs.h"

#include <stdbool.h>
#include <stdint.h>

enum group_kind {
    GROUP_PROCESSES, /* their anonymous memory */
    GROUP_SHARED,    /* shared memory, files on tmpfs */
    GROUP_FILES,     /* pages of files, without those that are reclaimed first (inactive) */
    GROUP_SOCKETS,   /* buffers of sockets; cgroup v1 has another limit for them */
    GROUP_HUGE,      /* pages of hugetlbfs, where this limit counts them */
    GROUP_SLAB,      /* objects of the kernel: dentries, inodes; v1: in GROUP_KERNEL */
    GROUP_TABLES,    /* page tables; v1: in GROUP_KERNEL */
    GROUP_KERNEL,    /* other memory of the kernel */
    GROUP_KINDS,
};

enum { GROUP_LARGEST = 3 };

struct group_process {
    pid_t pid;
    char comm[64]; /* not cleaned */
    uint64_t own;  /* anonymous memory, bytes */
};

struct group_account {
    bool known;
    uint64_t kinds[GROUP_KINDS]; /* bytes */
    struct group_process largest[GROUP_LARGEST];
    size_t
        processes; /* that were looked at, without the one; 0: the tool has no mount of cgroups */
    bool whole;    /* these are all */
};

/* Parses memory.stat, of the cgroup and those below it. False: it is not that file. */
bool group_kinds_parse(const char *text, size_t len, bool v2, uint64_t kinds[GROUP_KINDS]);

/*
 * Reads the memory cgroup that is so many levels above that of the process, whose own memory the
 * kinds do not contain as far as it is known to be its own.
 */
void group_account_read(const struct procfs *proc, pid_t pid, size_t level,
                        struct group_account *out);
