/*
 * The tasks in /proc, that is processes and their threads: their stat and status,
 * and lists of them. PROC_SELF in place of a pid stands for the tool itself.
 *
 * Each function returns 0 or -errno: -ENOENT or -ESRCH if there is no such task,
 * -EBADMSG if the text is malformed. *out is valid only after 0; if nothing could be
 * read, it is zeroed.
 */
#pragma once

#include "host/parse.h"
#include "host/procfs.h"

#include <dirent.h>

/* Reads /proc/PID/stat: the times are of all threads, the state is the first thread's. */
int process_stat(const struct procfs *proc, pid_t pid, struct proc_stat *out);
/* Returns the time since the process started, in ns, with the precision of a tick. */
uint64_t process_age_ns(const struct proc_stat *stat);
/* Reads /proc/PID/task/TID/stat. */
int thread_stat(const struct procfs *proc, pid_t pid, pid_t tid, struct proc_stat *out);

/*
 * Reads /proc/PID/status: signals, capabilities and the seccomp filter are the
 * first thread's. About 20 us.
 */
int process_status(const struct procfs *proc, pid_t pid, struct proc_status *out);
/* Reads /proc/PID/task/TID/status. */
int thread_status(const struct procfs *proc, pid_t pid, pid_t tid, struct proc_status *out);

/*
 * Reads the function of the kernel in which the thread waits (/proc/PID/task/TID/wchan)
 * and ends it with a NUL. False if it waits in none, or if the tool may not read its
 * memory.
 */
bool thread_wchan(const struct procfs *proc, pid_t pid, pid_t tid, char *out, size_t size);

/* The processes in /proc, or the threads of one process, in the order of the kernel. */
struct task_dir {
    DIR *stream;
};

/* Open the directory; return 0 or -errno. task_dir_close releases it, also after an error. */
int task_dir_of_processes(struct task_dir *dir, const struct procfs *proc);
int task_dir_of_threads(struct task_dir *dir, const struct procfs *proc, pid_t pid);
void task_dir_close(struct task_dir *dir);

/* Returns the next pid or tid; 0 at the end. */
pid_t task_dir_next(struct task_dir *dir);
