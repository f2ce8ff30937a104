/* Texts as the kernel writes them below /proc. */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* A pid that no process can have: it is above the kernel's PID_MAX_LIMIT. */
enum { NO_PID = 5000000 };

struct stat_line {
    int pid;
    const char *comm;
    char state;
    int ppid;
    unsigned flags;
    unsigned utime, stime;
    uint64_t start;
    int cpu;
};

/* fs/proc/array.c, do_task_stat: 52 fields. */
static inline int stat_text(const struct stat_line *line, char *out, size_t size)
{
    return snprintf(out, size,
                    "%d (%s) %c %d 4242 4242 0 -1 %u 1234 56 7 8 %u %u 90 91 20 -5 6 0 %llu "
                    "70000000 2048 18446744073709551615 94000000000000 94000000100000 "
                    "140720000000000 0 0 0 0 4096 17642 0 0 0 17 %d 0 0 0 0 0 94000000200000 "
                    "94000000300000 94000010000000 140720000000100 140720000000200 "
                    "140720000000200 140720000000300 0\n",
                    line->pid, line->comm, line->state, line->ppid, line->flags, line->utime,
                    line->stime, (unsigned long long)line->start, line->cpu);
}
