/* Pressure stall information (PSI): how long tasks had to wait for memory. */
#pragma once

#include "host/procfs.h"

#include <stdbool.h>
#include <stdint.h>

enum pressure_kind { PRESSURE_SOME, PRESSURE_FULL, PRESSURE_KINDS };

struct pressure {
    uint64_t stalled_us[PRESSURE_KINDS]; /* since the cgroup was made, or since boot */
};

/* Parses the text of a pressure file. Some have no line "full"; its value is then 0. */
bool pressure_parse(const char *text, size_t len, struct pressure *out);

struct pressure_file {
    int fd;
    bool whole_host; /* of the whole machine, because the cgroup has none */
};

/*
 * Opens the memory pressure of a process's cgroup, else of the machine. The process
 * may have put another file there: only a file of cgroup2 that reads as a pressure
 * file is accepted. Returns 0, or -errno if the kernel has no PSI (CONFIG_PSI,
 * psi=0).
 */
int pressure_open(struct pressure_file *file, const struct procfs *proc, pid_t pid);
void pressure_close(struct pressure_file *file);
bool pressure_read(const struct pressure_file *file, struct pressure *out);

/*
 * Returns a file descriptor of that same file, never found by its name again, or
 * -errno. poll(2) on it reports POLLPRI when tasks were stalled for stall_us in any
 * window_us, at most once per window, and POLLERR when the cgroup is gone. The
 * kernel accepts windows of 0.5 to 10 s, without CAP_SYS_RESOURCE only multiples of
 * 2 s (kernel/sched/psi.c, psi_trigger_create). Its first reports may be false
 * (run/rules.c, is_true_alarm).
 */
int pressure_trigger(const struct pressure_file *file, enum pressure_kind kind, uint64_t stall_us,
                     uint64_t window_us);
