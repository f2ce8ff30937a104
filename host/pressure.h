/* Pressure stall information: the time in which tasks had to wait for memory. */
#pragma once

#include "host/procfs.h"

#include <stdbool.h>
#include <stdint.h>

enum pressure_kind { PRESSURE_SOME, PRESSURE_FULL, PRESSURE_KINDS };

struct pressure {
    uint64_t stalled_us[PRESSURE_KINDS]; /* since the group was made, or since boot */
};

/* Of the text of a pressure file. "full" is missing in some, and 0 then. */
bool pressure_parse(const char *text, size_t len, struct pressure *out);

struct pressure_file {
    int fd;
    bool whole_host; /* its control group has none: it is that of the machine */
};

/*
 * Opens the memory pressure of the group of a process, else that of the host.
 * The process may have filled that place itself: only what cgroup2 shows there,
 * and reads as a pressure file, is taken. Returns 0 or -errno: the kernel has
 * none (CONFIG_PSI, psi=0).
 */
int pressure_open(struct pressure_file *file, const struct procfs *proc, pid_t pid);
void pressure_close(struct pressure_file *file);
bool pressure_read(const struct pressure_file *file, struct pressure *out);

/*
 * A descriptor of that same file, never found by its name again, on which poll(2) reports POLLPRI
 * when tasks were stalled for stall_us of any window_us, at most once a window; POLLERR when the
 * group is gone. The kernel takes windows of 0.5 to 10 s, without CAP_SYS_RESOURCE only multiples
 * of 2 s (kernel/sched/psi.c, psi_trigger_create). Its first reports may be false (run/rules.c,
 * is_true_alarm). Or -errno.
 */
int pressure_trigger(const struct pressure_file *file, enum pressure_kind kind, uint64_t stall_us,
                     uint64_t window_us);
