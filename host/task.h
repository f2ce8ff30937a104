/*
 * Readers of stat and status of a task: a process, or one of its threads. PROC_SELF
 * in place of a pid stands for the tool itself.
 *
 * Each function returns 0 or -errno: -ENOENT or -ESRCH if there is no such task,
 * -EBADMSG if the text is malformed. *out is valid only after 0.
 */
#pragma once

#include "host/parse.h"
#include "host/procfs.h"

/* Reads /proc/PID/stat: the times are of all threads, the state is the first thread's. */
int process_stat(const struct procfs *proc, pid_t pid, struct proc_stat *out);
/* Reads /proc/PID/task/TID/stat. */
int thread_stat(const struct procfs *proc, pid_t pid, pid_t tid, struct proc_stat *out);

/*
 * Reads /proc/PID/status: signals, capabilities and the seccomp filter are the
 * first thread's. About 20 us.
 */
int process_status(const struct procfs *proc, pid_t pid, struct proc_status *out);
/* Reads /proc/PID/task/TID/status. */
int thread_status(const struct procfs *proc, pid_t pid, pid_t tid, struct proc_status *out);
