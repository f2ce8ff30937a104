#include "attach/target.h"
#include "attach/faults.h"
#include "base/list.h"
#include "base/text.h"
#include "host/task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

enum { END_LOOKS = 40, END_LOOK_NS = 5000000, SMAPS_LIMIT = 64 << 20 };

/* include/linux/sched.h */
#define PF_EXITING 0x00000004u
#define PF_KTHREAD 0x00200000u

static fault_code read_target_stat(const struct target *target, struct proc_stat *out,
                                   struct fault *fault)
{
    int rc = process_stat(target->proc, target->pid, out);

    if (rc == -ENOENT || rc == -ESRCH)
        return fault_set(fault, FAULT_GONE, ESRCH, "look up the process", "%d", (int)target->pid);
    if (rc < 0 && rc != -EBADMSG)
        return fault_set(fault, FAULT_DENIED, -rc, "read stat", "%d", (int)target->pid);
    if (rc < 0)
        return fault_set(fault, FAULT_INTERNAL, 0, "parse stat", "%d", (int)target->pid);
    return FAULT_NONE;
}

static bool is_ending(const struct proc_stat *stat)
{
    return stat->state == 'Z' || stat->state == 'X' || stat->flags & PF_EXITING;
}

/* The first thread may have ended and be a zombie while others continue. */
static pid_t find_live_thread(const struct target *target)
{
    struct proc_stat stat;
    struct task_dir dir;
    pid_t tid, live = 0;

    (void)task_dir_of_threads(&dir, target->proc, target->pid);
    while (!live && (tid = task_dir_next(&dir)))
        if (thread_stat(target->proc, target->pid, tid, &stat) == 0 && !is_ending(&stat))
            live = stat.pid;
    task_dir_close(&dir);
    return live;
}

static fault_code judge_state(const struct target *target, const struct proc_stat *stat,
                              struct fault *fault)
{
    if (stat->start != target->stat.start)
        return fault_set(fault, FAULT_REUSED, 0, "look up the process", "%d", (int)target->pid);
    if (is_ending(stat) && !find_live_thread(target))
        return fault_set(fault, FAULT_ZOMBIE, 0, "look up the process", "%d (%s), parent %d",
                         (int)target->pid, stat->comm, stat->ppid);
    if (stat->flags & PF_KTHREAD)
        return fault_set(fault, FAULT_KERNEL_THREAD, 0, "look up the process", "%d (%s)",
                         (int)target->pid, stat->comm);
    return FAULT_NONE;
}

static void renew_status(struct target *target)
{
    struct proc_status status;

    if (process_status(target->proc, target->pid, &status) == 0)
        target->status = status;
}

fault_code target_open(struct target *target, struct procfs *proc, pid_t pid, struct fault *fault)
{
    struct proc_status status;
    fault_code rc;

    memset(target, 0, sizeof *target);
    target->proc = proc;
    target->pid = pid;
    target->pidfd = -1;
    rc = read_target_stat(target, &target->stat, fault);
    if (rc == FAULT_NONE)
        rc = judge_state(target, &target->stat, fault);
    if (rc != FAULT_NONE)
        return rc;

    /*
     * /proc/TID exists for every thread, though it is not listed; only a thread group
     * leader is a process.
     */
    int err = process_status(proc, pid, &status);
    if (err < 0 && err != -EBADMSG)
        return fault_set(fault, FAULT_GONE, -err, "read status", "%d", (int)pid);
    if (err == 0 && status.tgid && status.tgid != (int)pid)
        return fault_set(fault, FAULT_GONE, 0, "look up the process",
                         "%d is a thread of process %d", (int)pid, status.tgid);

    if (is_ending(&target->stat))
        target->via = find_live_thread(target);
    target->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    renew_status(target);
    /* Check again after opening the pidfd: both now belong to the same process. */
    return target_check(target, fault);
}

void target_close(struct target *target)
{
    util_close(&target->pidfd);
}

struct target_pin target_take_pin(struct target *target)
{
    return (struct target_pin){target->pid, target->stat.start, steal_fd(&target->pidfd)};
}

void target_pin_close(struct target_pin *pin)
{
    util_close(&pin->pidfd);
}

/* A pidfd becomes readable when its process has ended (pidfd_poll, kernel/fork.c). */
static bool pidfd_has_ended(int pidfd)
{
    struct pollfd p = {pidfd, POLLIN, 0};

    return pidfd >= 0 && poll(&p, 1, 0) == 1;
}

/*
 * Start times are in clock ticks, and a small pid namespace can reuse all its pids
 * within one. Only a pidfd that is still alive after the other was opened proves
 * that both belong to the same process.
 */
fault_code target_open_pinned(struct target *target, struct procfs *proc,
                              const struct target_pin *pin, struct fault *fault)
{
    fault_code rc = target_open(target, proc, pin->pid, fault);

    if (rc == FAULT_NONE && (target->stat.start != pin->start || pidfd_has_ended(pin->pidfd)))
        rc = fault_set(fault, FAULT_REUSED, 0, "look up the process", "%d", (int)pin->pid);
    return rc;
}

fault_code target_check(const struct target *target, struct fault *fault)
{
    struct proc_stat now;
    fault_code rc;

    if (pidfd_has_ended(target->pidfd))
        return fault_set(fault, FAULT_GONE, ESRCH, "look up the process", "%d", (int)target->pid);
    rc = read_target_stat(target, &now, fault);
    return rc == FAULT_NONE ? judge_state(target, &now, fault) : rc;
}

fault_code target_renew(struct target *target, struct fault *fault)
{
    struct proc_stat now;
    fault_code rc = target_check(target, fault);

    if (rc == FAULT_NONE)
        rc = read_target_stat(target, &now, fault);
    if (rc != FAULT_NONE)
        return rc;
    target->via = is_ending(&now) ? find_live_thread(target) : 0;
    renew_status(target);
    return FAULT_NONE;
}

/* Returns a thread that still shows the memory if that of target_via has ended; 0: none. */
static pid_t find_other_via(const struct target *target)
{
    pid_t live = target->stat.pid ? find_live_thread(target) : 0;

    return live != target_via(target) ? live : 0;
}

ssize_t target_maps(const struct target *target, char **text)
{
    const struct target_record *record = target->record;
    pid_t live;

    if (record) {
        *text = malloc(record->maps_len + 1);
        if (!*text)
            return -ENOMEM;
        memcpy(*text, record->maps, record->maps_len);
        (*text)[record->maps_len] = '\0';
        return (ssize_t)record->maps_len;
    }
    ssize_t n =
        procfs_slurp(target->proc, text, TARGET_MAPS_MAX, "%d/maps", (int)target_via(target));

    if ((n != 0 && n != -ESRCH && n != -ENOENT) || !(live = find_other_via(target)))
        return n;
    free(*text);
    return procfs_slurp(target->proc, text, TARGET_MAPS_MAX, "%d/maps", (int)live);
}

fault_code target_check_end(const struct target *target, struct fault *fault)
{
    struct timespec pause = {0, END_LOOK_NS};
    fault_code rc = target_check(target, fault);

    for (int look = 0; look < END_LOOKS && rc == FAULT_NONE; look++) {
        nanosleep(&pause, NULL);
        rc = target_check(target, fault);
    }
    return rc;
}

enum target_end target_look_end(const struct target *target, pid_t tid)
{
    const uint64_t kill = 1ull << (SIGKILL - 1);
    struct proc_status status;
    struct proc_stat stat;
    struct fault ignored;

    /* SIGKILL of a process is pending for each of its threads (kernel/signal.c, complete_signal).
     */
    if (thread_status(target->proc, target->pid, tid, &status) == 0 &&
        (status.sig_pending | status.sig_shared_pending) & kill)
        return TARGET_ENDS;
    if (target_check(target, &ignored) != FAULT_NONE)
        return TARGET_ENDS;
    if (thread_stat(target->proc, target->pid, tid, &stat) == 0 && !is_ending(&stat))
        return TARGET_LIVES;
    /* Its process may have ended in between. */
    return target_check(target, &ignored) == FAULT_NONE ? TARGET_THREAD_ENDS : TARGET_ENDS;
}

/*
 * Reads a line such as "Max file size             unlimited            unlimited
 * bytes", with the soft limit first (fs/proc/base.c, proc_pid_limits).
 */
static uint64_t soft_limit(const struct target *target, const char *key)
{
    char text[4096];
    uint64_t limit;
    ssize_t n = procfs_read(target->proc, text, sizeof text, "%d/limits", (int)target->pid);

    if (n <= 0 || !cursor_find_number(cursor_of(text, (size_t)n), key, &limit))
        return UINT64_MAX;
    return limit;
}

uint64_t target_file_size_limit(const struct target *target)
{
    return soft_limit(target, "Max file size");
}

uint64_t target_space_limit(const struct target *target)
{
    return soft_limit(target, "Max address space");
}

uint64_t target_stack_limit(const struct target *target)
{
    return soft_limit(target, "Max stack size");
}

uint64_t target_rss(const struct target *target)
{
    struct proc_status status;

    return process_status(target->proc, target_via(target), &status) == 0 ? status.rss_bytes : 0;
}

bool target_status_usage(const struct target *target, struct proc_usage *usage)
{
    char text[8192];
    ssize_t n = procfs_read(target->proc, text, sizeof text, "%d/status", (int)target_via(target));

    return n > 0 && parse_usage(text, (size_t)n, usage) && usage->rss;
}

/* Returns 0, or -errno of the last file. */
static int usage_seen_by(const struct target *target, pid_t via, struct proc_usage *usage,
                         enum usage_source *source)
{
    static const char *const files[] = {
        [USAGE_ROLLUP] = "smaps_rollup", [USAGE_SMAPS] = "smaps", [USAGE_STATUS] = "status"};
    ssize_t n = 0;

    for (unsigned i = 0; i < ARRAY_LEN(files); i++) {
        AUTO_FREE char *text = NULL;
        n = procfs_slurp(target->proc, &text, SMAPS_LIMIT, "%d/%s", (int)via, files[i]);
        if (n > 0 && parse_usage(text, (size_t)n, usage)) {
            *source = (enum usage_source)i;
            return 0;
        }
    }
    return n < 0 ? (int)n : -ENODATA;
}

fault_code target_usage(const struct target *target, struct proc_usage *usage,
                        enum usage_source *source, struct fault *fault)
{
    int error = usage_seen_by(target, target_via(target), usage, source);
    pid_t live = error ? find_other_via(target) : 0;

    if (live)
        error = usage_seen_by(target, live, usage, source);
    if (!error)
        return FAULT_NONE;
    /* An ending process has no memory any more; the reads then fail in various ways. */
    fault_code rc = target_check_end(target, fault);
    if (rc != FAULT_NONE)
        return rc;
    return fault_set(fault, FAULT_INTERNAL, -error, "read the memory use", "its memory use");
}

void target_alias_find(struct target_alias *alias, const struct target *target)
{
    char path[PATH_MAX], words[PATH_MAX];

    alias->path[0] = '\0';
    if (!target || target->record)
        return;
    const char *comm = target->stat.comm;
    const size_t len = strlen(comm);
    const int pid = (int)target_via(target);
    if (!len || procfs_readlink(target->proc, path, sizeof path, "%d/exe", pid) <= 0 ||
        strncmp(text_base_name(path), comm, len) == 0 ||
        procfs_read(target->proc, words, sizeof words, "%d/cmdline", pid) <= 0)
        return;
    /* A process may rename itself: that is not what it was started as. */
    words[strcspn(words, " ")] = '\0';
    if (strncmp(text_base_name(words), comm, len) != 0)
        return;
    strcpy(alias->path, path);
    snprintf(alias->name, sizeof alias->name, "%s", text_base_name(words));
}

const char *target_file_name(const struct target_alias *alias, const char *path)
{
    return *path && strcmp(path, alias->path) == 0 ? alias->name : text_base_name(path);
}

bool thread_refresh(struct thread *thread, const struct target *target)
{
    struct proc_stat stat;

    if (thread_stat(target->proc, target->pid, thread->tid, &stat))
        return false;
    thread->state = stat.state;
    thread->cpu = stat.cpu;
    thread->cpu_ticks = stat.cpu_ticks;
    thread->flags = stat.flags;
    memcpy(thread->comm, stat.comm, sizeof thread->comm);
    thread->comm[sizeof thread->comm - 1] = '\0';
    return stat.state != 'Z' && stat.state != 'X';
}

fault_code threads_list(struct threads *threads, const struct target *target, struct fault *fault)
{
    struct task_dir dir;
    int err = task_dir_of_threads(&dir, target->proc, target->pid);
    fault_code rc = FAULT_NONE;
    size_t capacity = 0;
    pid_t tid;

    memset(threads, 0, sizeof *threads);
    if (err)
        return fault_set(fault, FAULT_GONE, -err, "list threads", "%d", target->pid);
    while (rc == FAULT_NONE && threads->count < THREADS_MAX && (tid = task_dir_next(&dir))) {
        struct thread thread = {.tid = tid};
        if (!thread_refresh(&thread, target))
            continue;
        if (LIST_GROW(threads->list, capacity, threads->count))
            threads->list[threads->count++] = thread;
        else
            rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "list threads", "%d", target->pid);
    }
    task_dir_close(&dir);
    if (rc == FAULT_NONE && threads->count == 0)
        rc = fault_set(fault, FAULT_GONE, 0, "list threads", "%d has no threads left", target->pid);
    if (rc != FAULT_NONE)
        threads_free(threads);
    return rc;
}

void threads_free(struct threads *threads)
{
    free(threads->list);
    memset(threads, 0, sizeof *threads);
}

bool thread_read_syscall(const struct thread *thread, const struct target *target,
                         struct proc_syscall *out)
{
    char text[256];
    ssize_t n = procfs_read(target->proc, text, sizeof text, "%d/task/%d/syscall", (int)target->pid,
                            (int)thread->tid);

    *out = (struct proc_syscall){.nr = -1};
    return n > 0 && parse_syscall(text, (size_t)n, out);
}
