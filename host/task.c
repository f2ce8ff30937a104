#include "host/task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Enough for a stat: 52 numbers, most of them short, and a comm. */
enum { STAT_TEXT_MAX = 1024, TASK_NAME_MAX = 64 };

/*
 * Enough for a whole status: the line of groups has up to 65,536 numbers, and the
 * lines about signals, capabilities and seccomp filters follow it.
 */
enum { STATUS_TEXT_MAX = 1 << 20 };

/* Reads the stat in a directory of /proc: "42", "42/task/43", "self". */
static int read_stat(const struct procfs *proc, const char *task, struct proc_stat *out)
{
    char text[STAT_TEXT_MAX];
    ssize_t n = procfs_read(proc, text, sizeof text, "%s/stat", task);

    memset(out, 0, sizeof *out);
    if (n < 0)
        return (int)n;
    return parse_stat(text, (size_t)n, out) ? 0 : -EBADMSG;
}

static int read_status(const struct procfs *proc, const char *task, struct proc_status *out)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = procfs_slurp(proc, &text, STATUS_TEXT_MAX, "%s/status", task);

    memset(out, 0, sizeof *out);
    if (n < 0)
        return (int)n;
    return parse_status(text, (size_t)n, out) ? 0 : -EBADMSG;
}

/* Returns "42/task/43". */
static const char *task_of_thread(pid_t pid, pid_t tid, char out[TASK_NAME_MAX])
{
    char name[PROC_NAME_MAX];

    snprintf(out, TASK_NAME_MAX, "%s/task/%d", procfs_name(pid, name), (int)tid);
    return out;
}

int process_stat(const struct procfs *proc, pid_t pid, struct proc_stat *out)
{
    char name[PROC_NAME_MAX];

    return read_stat(proc, procfs_name(pid, name), out);
}

int thread_stat(const struct procfs *proc, pid_t pid, pid_t tid, struct proc_stat *out)
{
    char name[TASK_NAME_MAX];

    return read_stat(proc, task_of_thread(pid, tid, name), out);
}

int process_status(const struct procfs *proc, pid_t pid, struct proc_status *out)
{
    char name[PROC_NAME_MAX];

    return read_status(proc, procfs_name(pid, name), out);
}

int thread_status(const struct procfs *proc, pid_t pid, pid_t tid, struct proc_status *out)
{
    char name[TASK_NAME_MAX];

    return read_status(proc, task_of_thread(pid, tid, name), out);
}

bool thread_wchan(const struct procfs *proc, pid_t pid, pid_t tid, char *out, size_t size)
{
    return procfs_read(proc, out, size, "%d/task/%d/wchan", (int)pid, (int)tid) > 0 &&
           strcmp(out, "0") != 0;
}

/* Takes over fd, which is a file descriptor or -errno. */
static int open_stream(struct task_dir *dir, int fd)
{
    int rc = 0;

    dir->stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir->stream)
        rc = fd >= 0 ? -errno : fd;
    if (!dir->stream && fd >= 0)
        close(fd);
    return rc;
}

int task_dir_of_processes(struct task_dir *dir, const struct procfs *proc)
{
    return open_stream(dir, procfs_openf(proc, O_RDONLY | O_DIRECTORY, "."));
}

int task_dir_of_threads(struct task_dir *dir, const struct procfs *proc, pid_t pid)
{
    return open_stream(dir, procfs_openf(proc, O_RDONLY | O_DIRECTORY, "%d/task", (int)pid));
}

void task_dir_close(struct task_dir *dir)
{
    if (dir->stream)
        closedir(dir->stream);
    dir->stream = NULL;
}

/* Returns the number in the name of a directory; 0: it is not one. */
static pid_t task_of_name(const char *name)
{
    char *end;
    long number = strtol(name, &end, 10);

    return *name >= '1' && *name <= '9' && !*end && number <= INT32_MAX ? (pid_t)number : 0;
}

pid_t task_dir_next(struct task_dir *dir)
{
    const struct dirent *entry;
    pid_t number = 0;

    while (!number && dir->stream && (entry = readdir(dir->stream)))
        number = task_of_name(entry->d_name);
    return number;
}

/* starttime is in ticks of CLOCK_BOOTTIME (fs/proc/array.c). */
uint64_t process_age_ns(const struct proc_stat *stat)
{
    const uint64_t second = 1000000000, ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    const uint64_t born = stat->start / ticks * second + stat->start % ticks * second / ticks;
    struct timespec now;
    uint64_t at;

    clock_gettime(CLOCK_BOOTTIME, &now);
    at = (uint64_t)now.tv_sec * second + (uint64_t)now.tv_nsec;
    return at > born ? at - born : 0;
}
