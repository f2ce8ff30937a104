#include "host/task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Takes the next number after blanks; ignores a minus sign. */
static bool take_field(struct cursor *c, uint64_t *out)
{
    cursor_skip_blanks(c);
    (void)cursor_take_char(c, '-');
    return cursor_take_decimal(c, out);
}

/*
 * proc(5): pid (comm) state ppid pgrp session tty tpgid flags minflt cminflt majflt
 * cmajflt utime stime cutime cstime priority nice threads itrealvalue starttime ...
 * Field 28 is startstack, 39 the CPU; 50 and 51 are env_start and env_end. The addresses
 * are 0 for readers who may not trace the process (fs/proc/array.c, do_task_stat). comm
 * may contain ") ", so it ends at the last ')' of the line.
 */
enum { STAT_PPID = 4, STAT_FLAGS = 9, STAT_UTIME = 14, STAT_STIME = 15, STAT_THREADS = 20 };
enum { STAT_START = 22, STAT_STACK = 28, STAT_PROCESSOR = 39, STAT_ENV_START = 50 };
enum { STAT_ENV_END = 51 };

bool parse_stat(const char *text, size_t len, struct proc_stat *out)
{
    struct cursor c = cursor_of(text, len);
    const char *open, *close = NULL;
    uint64_t value;

    memset(out, 0, sizeof *out);
    if (!cursor_take_decimal(&c, &value))
        return false;
    out->pid = (int)value;
    open = memchr(c.at, '(', cursor_left(c));
    close = memrchr(c.at, ')', cursor_left(c));
    if (!open || !close || close < open || c.end - close < 4)
        return false;
    size_t n = (size_t)(close - open - 1);
    n = n < sizeof out->comm ? n : sizeof out->comm - 1;
    memcpy(out->comm, open + 1, n);
    out->state = close[2];
    c.at = close + 3;
    for (int field = STAT_PPID; field <= STAT_ENV_END; field++) {
        if (!take_field(&c, &value))
            return field > STAT_START;
        switch (field) {
        case STAT_PPID:
            out->ppid = (int)value;
            break;
        case STAT_FLAGS:
            out->flags = (unsigned)value;
            break;
        case STAT_UTIME:
            out->user_ticks = value;
            out->cpu_ticks += value;
            break;
        case STAT_STIME:
            out->cpu_ticks += value;
            break;
        case STAT_THREADS:
            out->threads = value;
            break;
        case STAT_START:
            out->start = value;
            break;
        case STAT_STACK:
            out->stack_start = value;
            break;
        case STAT_PROCESSOR:
            out->cpu = (int)value;
            break;
        case STAT_ENV_START:
            out->env_start = value;
            break;
        case STAT_ENV_END:
            out->env_end = value;
            break;
        default:
            break;
        }
    }
    return true;
}

/* Moves past key and blanks if the line begins with key. */
static bool line_has_key(struct cursor *line, const char *key)
{
    if (!cursor_take_text(line, key))
        return false;
    cursor_skip_blanks(line);
    return true;
}

/* Returns 0 if there is no number. */
static uint64_t line_decimal(struct cursor line)
{
    uint64_t value;
    return cursor_take_decimal(&line, &value) ? value : 0;
}

static uint64_t line_hex(struct cursor line)
{
    uint64_t value;
    return cursor_take_hex(&line, &value) ? value : 0;
}

/* "Uid:" and "Gid:" have the real, effective, saved and file system id. */
static void status_ids(struct cursor line, unsigned *real, unsigned *effective, unsigned *saved)
{
    unsigned *const ids[] = {real, effective, saved};
    uint64_t value;

    for (size_t i = 0; i < ARRAY_LEN(ids) && take_field(&line, &value); i++)
        *ids[i] = (unsigned)value;
}

bool parse_status(const char *text, size_t len, struct proc_status *out)
{
    struct cursor rest = cursor_of(text, len), line;
    uint64_t value;
    bool any = false;

    memset(out, 0, sizeof *out);
    while (cursor_take_line(&rest, &line)) {
        if (line_has_key(&line, "Name:"))
            any = true;
        else if (line_has_key(&line, "Tgid:"))
            out->tgid = (int)line_decimal(line);
        else if (line_has_key(&line, "TracerPid:"))
            out->tracer = (int)line_decimal(line);
        else if (line_has_key(&line, "NSpid:"))
            while (take_field(&line, &value)) {
                out->ns_pid = (int)value;
                if (out->ns_pid_count < NS_PIDS_MAX)
                    out->ns_pids[out->ns_pid_count++] = (int)value;
            }
        else if (line_has_key(&line, "Uid:"))
            status_ids(line, &out->uid, &out->euid, &out->suid);
        else if (line_has_key(&line, "Gid:"))
            status_ids(line, &out->gid, &out->egid, &out->sgid);
        else if (line_has_key(&line, "Seccomp:"))
            out->seccomp = (int)line_decimal(line);
        else if (line_has_key(&line, "Seccomp_filters:"))
            out->seccomp_filters = (unsigned)line_decimal(line);
        else if (line_has_key(&line, "SigPnd:"))
            out->sig_pending = line_hex(line);
        else if (line_has_key(&line, "ShdPnd:"))
            out->sig_shared_pending = line_hex(line);
        else if (line_has_key(&line, "SigBlk:"))
            out->sig_blocked = line_hex(line);
        else if (line_has_key(&line, "SigCgt:"))
            out->sig_caught = line_hex(line);
        else if (line_has_key(&line, "CapPrm:"))
            out->cap_permitted = line_hex(line);
        else if (line_has_key(&line, "CapEff:"))
            out->cap_effective = line_hex(line);
        else if (line_has_key(&line, "CapBnd:"))
            out->cap_bounding = line_hex(line);
        else if (line_has_key(&line, "VmRSS:"))
            out->rss_bytes = line_decimal(line) * 1024;
        else if (line_has_key(&line, "VmLck:"))
            out->locked_bytes = line_decimal(line) * 1024;
        else if (line_has_key(&line, "VmSwap:"))
            out->swap_bytes = line_decimal(line) * 1024;
        else if (line_has_key(&line, "voluntary_ctxt_switches:"))
            out->voluntary_switches = line_decimal(line);
        else if (line_has_key(&line, "x86_Thread_features:"))
            out->shadow_stack = cursor_find(&line, "shstk");
    }
    if (out->seccomp == STATUS_SECCOMP_FILTER && !out->seccomp_filters)
        out->seccomp_filters = 1;
    return any;
}

static bool take_hex(struct cursor *c, uint64_t *out)
{
    cursor_skip_blanks(c);
    return cursor_take_text(c, "0x") && cursor_take_hex(c, out);
}

/* "running", or "-1 sp pc", or "nr arg1 ... arg6 sp pc" (fs/proc/base.c, proc_pid_syscall). */
bool parse_syscall(const char *text, size_t len, struct proc_syscall *out)
{
    struct cursor c = cursor_of(text, len);
    uint64_t nr, arg;

    *out = (struct proc_syscall){.nr = -1};
    if (cursor_is(c, "running\n"))
        return true;
    bool none = cursor_take_char(&c, '-');
    if (!cursor_take_decimal(&c, &nr) || nr > INT32_MAX)
        return false;
    for (int i = 0; !none && i < 6; i++)
        if (!take_hex(&c, &arg))
            return false;
    out->nr = none ? -1 : (long)nr;
    out->asleep = take_hex(&c, &out->sp) && take_hex(&c, &out->pc);
    return out->asleep;
}

static void add_kilobytes(uint64_t *sum, struct cursor line)
{
    uint64_t value = line_decimal(line);

    *sum = value > (UINT64_MAX - *sum) / 1024 ? UINT64_MAX : *sum + value * 1024;
}

bool parse_usage(const char *text, size_t len, struct proc_usage *out)
{
    struct cursor rest = cursor_of(text, len), line;
    bool any = false;

    memset(out, 0, sizeof *out);
    while (cursor_take_line(&rest, &line)) {
        if (line_has_key(&line, "Rss:") || line_has_key(&line, "VmRSS:")) {
            any = true; /* the one that must be present */
            add_kilobytes(&out->rss, line);
        } else if (line_has_key(&line, "Anonymous:") || line_has_key(&line, "RssAnon:")) {
            add_kilobytes(&out->anonymous, line);
        } else if (line_has_key(&line, "RssFile:")) {
            add_kilobytes(&out->file, line);
        } else if (line_has_key(&line, "RssShmem:")) {
            add_kilobytes(&out->shared, line);
        } else if (line_has_key(&line, "AnonHugePages:")) {
            add_kilobytes(&out->huge, line);
        } else if (line_has_key(&line, "LazyFree:")) {
            add_kilobytes(&out->lazy_free, line);
        } else if (line_has_key(&line, "Swap:") || line_has_key(&line, "VmSwap:")) {
            add_kilobytes(&out->swap, line);
        }
    }
    return any;
}

/* "start-end perms offset major:minor inode [path]" (fs/proc/task_mmu.c, show_map_vma). */
int parse_map_line(struct cursor *text, struct map_entry *out)
{
    static const struct {
        char set;
        unsigned bit;
    } flags[] = {{'r', MAP_READ}, {'w', MAP_WRITE}, {'x', MAP_EXEC}, {'s', MAP_SHARED_}};
    struct cursor line;
    uint64_t major, minor;

    if (!cursor_take_line(text, &line))
        return 0;
    if (!cursor_take_hex(&line, &out->start) || !cursor_take_char(&line, '-') ||
        !cursor_take_hex(&line, &out->end))
        return -1;
    if (!cursor_take_char(&line, ' ') || cursor_left(line) < ARRAY_LEN(flags))
        return -1;
    out->prot = 0;
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (*line.at++ == flags[i].set)
            out->prot |= flags[i].bit;
    if (!cursor_take_char(&line, ' ') || !cursor_take_hex(&line, &out->offset))
        return -1;
    if (!cursor_take_char(&line, ' ') || !cursor_take_hex(&line, &major) ||
        !cursor_take_char(&line, ':') || !cursor_take_hex(&line, &minor))
        return -1;
    if (!cursor_take_char(&line, ' ') || !cursor_take_decimal(&line, &out->inode) ||
        out->start >= out->end)
        return -1;
    out->dev_major = (unsigned)major;
    out->dev_minor = (unsigned)minor;
    cursor_skip_blanks(&line);
    out->path = line.at;
    out->path_len = cursor_left(line);
    return 1;
}

/* ---- tasks ---- */

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

pid_t task_dir_next(struct task_dir *dir)
{
    const struct dirent *entry;

    while (dir->stream && (entry = readdir(dir->stream))) {
        const char *name = entry->d_name;
        char *end;
        long number = strtol(name, &end, 10);
        if (*name >= '1' && *name <= '9' && !*end && number <= INT32_MAX)
            return (pid_t)number;
    }
    return 0;
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
