#include "attach/target.h"
#include "attach/faults.h"
#include "host/inroot.h"
#include "host/task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { END_LOOKS = 40, END_LOOK_NS = 5000000, SMAPS_LIMIT = 256 << 20 };

/* include/linux/sched.h */
#define PF_EXITING 0x00000004u
#define PF_KTHREAD 0x00200000u

static fault_code read_stat(const struct target *target, struct proc_stat *out, struct fault *fault)
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

/* The first thread may have ended, and be a zombie, while others go on. */
static pid_t find_live_thread(const struct target *target)
{
    int fd = procfs_openf(target->proc, O_RDONLY | O_DIRECTORY, "%d/task", (int)target->pid);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    pid_t live = 0;

    if (!dir)
        util_close(&fd);
    while (dir && !live && (entry = readdir(dir))) {
        struct proc_stat stat;
        if (thread_stat(target->proc, target->pid, (pid_t)atoi(entry->d_name), &stat) == 0 &&
            !is_ending(&stat))
            live = stat.pid;
    }
    if (dir)
        closedir(dir);
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

/* /proc/TID exists for every thread, hidden from listings; only a leader is a process. */
static fault_code refuse_plain_thread(const struct target *target, struct fault *fault)
{
    struct proc_status status;
    int rc = process_status(target->proc, target->pid, &status);

    if (rc < 0 && rc != -EBADMSG)
        return fault_set(fault, FAULT_GONE, -rc, "read status", "%d", (int)target->pid);
    if (rc == 0 && status.tgid && status.tgid != (int)target->pid)
        return fault_set(fault, FAULT_GONE, 0, "look up the process",
                         "%d is a thread of process %d", (int)target->pid, status.tgid);
    return FAULT_NONE;
}

static void read_status(struct target *target)
{
    struct proc_status status;

    if (process_status(target->proc, target->pid, &status) == 0)
        target->status = status;
}

fault_code target_open(struct target *target, struct procfs *proc, pid_t pid, struct fault *fault)
{
    fault_code rc;

    memset(target, 0, sizeof *target);
    target->proc = proc;
    target->pid = pid;
    target->pidfd = -1;
    rc = read_stat(target, &target->stat, fault);
    if (rc == FAULT_NONE)
        rc = judge_state(target, &target->stat, fault);
    if (rc == FAULT_NONE)
        rc = refuse_plain_thread(target, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (is_ending(&target->stat))
        target->via = find_live_thread(target);
    target->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    read_status(target);
    /* Read again behind the pidfd: now both name the same process. */
    return target_check(target, fault);
}

void target_close(struct target *target)
{
    util_close(&target->pidfd);
    target->pidfd = -1;
}

struct target_pin target_take_pin(struct target *target)
{
    return (struct target_pin){target->pid, target->stat.start, steal_fd(&target->pidfd)};
}

void target_pin_close(struct target_pin *pin)
{
    util_close(&pin->pidfd);
    pin->pidfd = -1;
}

/* A pidfd is readable once its process has ended (pidfd_poll, kernel/fork.c). */
static bool has_ended(int pidfd)
{
    struct pollfd p = {pidfd, POLLIN, 0};

    return pidfd >= 0 && poll(&p, 1, 0) == 1;
}

/*
 * Start times are counted in ticks, of which a small pid namespace can be cycled
 * through in one: only a pidfd that has not ended after the other one was opened
 * says for certain that both are of one process.
 */
fault_code target_open_pinned(struct target *target, struct procfs *proc,
                              const struct target_pin *pin, struct fault *fault)
{
    fault_code rc = target_open(target, proc, pin->pid, fault);

    if (rc == FAULT_NONE && (target->stat.start != pin->start || has_ended(pin->pidfd)))
        rc = fault_set(fault, FAULT_REUSED, 0, "look up the process", "%d", (int)pin->pid);
    return rc;
}

fault_code target_check(const struct target *target, struct fault *fault)
{
    struct proc_stat now;
    fault_code rc;

    if (has_ended(target->pidfd))
        return fault_set(fault, FAULT_GONE, ESRCH, "look up the process", "%d", (int)target->pid);
    rc = read_stat(target, &now, fault);
    return rc == FAULT_NONE ? judge_state(target, &now, fault) : rc;
}

fault_code target_renew(struct target *target, struct fault *fault)
{
    struct proc_stat now;
    fault_code rc = target_check(target, fault);

    if (rc == FAULT_NONE)
        rc = read_stat(target, &now, fault);
    if (rc != FAULT_NONE)
        return rc;
    target->via = is_ending(&now) ? find_live_thread(target) : 0;
    read_status(target);
    return FAULT_NONE;
}

ssize_t target_maps(const struct target *target, char **text, size_t limit)
{
    pid_t via = target_via(target), live;
    ssize_t n = procfs_slurp(target->proc, text, limit, "%d/maps", (int)via);

    if (!target->stat.pid || (n != 0 && n != -ESRCH && n != -ENOENT))
        return n;
    live = find_live_thread(target);
    if (!live || live == via)
        return n;
    free(*text);
    return procfs_slurp(target->proc, text, limit, "%d/maps", (int)live);
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

bool target_has_own_root(const struct target *target)
{
    char own[64], its[64];
    struct stat here, there;

    if (procfs_readlink(target->proc, own, sizeof own, "self/ns/mnt") < 0)
        return false;
    if (procfs_readlink(target->proc, its, sizeof its, "%d/ns/mnt", (int)target_via(target)) < 0)
        return false;
    if (strcmp(own, its) != 0)
        return true;
    char root[32];
    snprintf(root, sizeof root, "%d/root/.", (int)target_via(target));
    if (stat("/", &here) || fstatat(target->proc->dirfd, root, &there, 0))
        return false;
    return here.st_dev != there.st_dev || here.st_ino != there.st_ino;
}

void target_path_from_here(const struct target *target, const char *path, char *out, size_t size)
{
    if (path[0] != '/')
        snprintf(out, size, "/proc/%d/cwd/%s", (int)target_via(target), path);
    else if (target_has_own_root(target))
        snprintf(out, size, "/proc/%d/root%s", (int)target_via(target), path);
    else
        snprintf(out, size, "%s", path);
}

/*
 * A path that the kernel shows begins at the reader's root or, where that does
 * not lie above it, at the root of its mount namespace (d_path): a chroot of
 * the target's is a directory in front, which the link /proc/PID/root shows.
 * Returns path without it, or path itself.
 */
static const char *without_root(const struct target *target, const char *path)
{
    char root[PATH_MAX];
    ssize_t n =
        procfs_readlink(target->proc, root, sizeof root, "%d/root", (int)target_via(target));

    if (n <= 1 || strncmp(root, path, (size_t)n) != 0)
        return path;
    if (path[n] == '\0')
        return "/";
    return path[n] == '/' ? path + n : path;
}

/* Its working directory as it sees it. */
static int own_directory(const struct target *target, char *out, size_t size)
{
    char cwd[PATH_MAX];
    ssize_t n = procfs_readlink(target->proc, cwd, sizeof cwd, "%d/cwd", (int)target_via(target));

    if (n < 0)
        return (int)n;
    snprintf(out, size, "%s", without_root(target, cwd));
    return 0;
}

/* An O_PATH descriptor, or -errno. */
static int name_in_root(const struct target *target, const char *path)
{
    AUTO_CLOSE int root =
        procfs_openf(target->proc, O_PATH | O_DIRECTORY, "%d/root", (int)target_via(target));
    char whole[2 * PATH_MAX] = "";
    int rc = path[0] == '/' ? 0 : own_directory(target, whole, PATH_MAX);

    if (root < 0 || rc < 0)
        return root < 0 ? root : rc;
    snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "/%s", path);
    return inroot_name(root, whole, INROOT_FOLLOW);
}

int target_stat(const struct target *target, const char *path, struct stat *st)
{
    AUTO_CLOSE int fd = name_in_root(target, path);

    if (fd < 0)
        return fd;
    return fstat(fd, st) ? -errno : 0;
}

/* pidfd_open(2) since Linux 6.9: of a thread. */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

/* A pidfd takes from the table of its own thread, which is not every thread's. -1: none is known.
 */
static int take_descriptor(const struct target *target, int fd)
{
    pid_t via = target_via(target);
    AUTO_CLOSE int thread = (int)syscall(SYS_pidfd_open, via, PIDFD_THREAD);

    if (thread >= 0)
        return (int)syscall(SYS_pidfd_getfd, thread, fd, 0);
    if (target->pidfd < 0 ||
        (via != target->pid && syscall(SYS_kcmp, target->pid, via, KCMP_FILES, 0, 0) != 0))
        return -1;
    return (int)syscall(SYS_pidfd_getfd, target->pidfd, fd, 0);
}

/*
 * The directory of descriptors belongs to the target's user, and CAP_SYS_PTRACE
 * alone does not open another user's; a duplicate it does get (pidfd_getfd(2),
 * since Linux 5.6).
 */
static int open_descriptor(const struct target *target, int fd)
{
    int named = procfs_openf(target->proc, O_PATH, "%d/fd/%d", (int)target_via(target), fd);
    int taken = named < 0 ? take_descriptor(target, fd) : -1;

    return taken < 0 ? named : taken;
}

static bool is_seen_at(const struct target *target, const char *path, const struct stat *file)
{
    struct stat found;

    return path[0] == '/' && target_stat(target, path, &found) == 0 &&
           found.st_dev == file->st_dev && found.st_ino == file->st_ino;
}

int target_descriptor_path(const struct target *target, const struct target *holder, int fd,
                           char *out, size_t size)
{
    AUTO_CLOSE int named = open_descriptor(holder, fd);
    char text[PATH_MAX];
    const char *path;
    struct stat file;

    if (named < 0)
        return named;
    if (fstat(named, &file))
        return -errno;
    ssize_t n = procfs_readlink(target->proc, text, sizeof text, "self/fd/%d", named);
    if (n < 0)
        return (int)n;
    path = without_root(target, text);
    if (!is_seen_at(target, path, &file))
        return -ESTALE;
    return snprintf(out, size, "%s", path) < (int)size ? 0 : -ENAMETOOLONG;
}

bool target_sees_alike(const struct target *target, const struct target *view)
{
    static const char *const links[] = {"ns/mnt", "root", "cwd"};
    pid_t one = target_via(target), other = target_via(view);

    for (size_t i = 0; i < ARRAY_LEN(links) && one != other; i++) {
        char a[PATH_MAX], b[PATH_MAX];
        if (procfs_readlink(target->proc, a, sizeof a, "%d/%s", (int)one, links[i]) < 0 ||
            procfs_readlink(target->proc, b, sizeof b, "%d/%s", (int)other, links[i]) < 0 ||
            strcmp(a, b) != 0)
            return false;
    }
    return true;
}

int target_absolute_path(const struct target *target, const char *path, char *out, size_t size)
{
    char directory[PATH_MAX] = "";
    int rc = path[0] == '/' ? 0 : own_directory(target, directory, sizeof directory);

    if (rc < 0)
        return rc;
    if (strcmp(directory, "/") == 0)
        directory[0] = '\0';
    int n = snprintf(out, size, "%s%s%s", directory, path[0] == '/' ? "" : "/", path);
    return n < (int)size ? 0 : -ENAMETOOLONG;
}

int target_open_file(const struct target *target, const char *path)
{
    AUTO_CLOSE int named = name_in_root(target, path);

    return named < 0 ? named : regular_open(named);
}

ssize_t target_readlink(const struct target *target, const char *dir, const char *name, char *out,
                        size_t size)
{
    AUTO_CLOSE int fd = name_in_root(target, dir);
    ssize_t n = fd < 0 ? fd : readlinkat(fd, name, out, size - 1);

    if (fd < 0 || n < 0) {
        out[0] = '\0';
        return fd < 0 ? fd : -errno;
    }
    out[n] = '\0';
    return n;
}

/*
 * "Max file size             unlimited            unlimited            bytes", the soft limit first
 * (fs/proc/base.c, proc_pid_limits).
 */
static uint64_t soft_limit(const struct target *target, const char *key)
{
    char text[4096];
    const char *line;
    uint64_t limit;

    if (procfs_read(target->proc, text, sizeof text, "%d/limits", (int)target->pid) <= 0 ||
        !(line = strstr(text, key)) || sscanf(line + strlen(key), "%" SCNu64, &limit) != 1)
        return UINT64_MAX;
    return limit;
}

uint64_t target_file_size_limit(const struct target *target)
{
    return soft_limit(target, "Max file size");
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

fault_code target_usage(const struct target *target, struct proc_usage *usage,
                        enum usage_source *source, struct fault *fault)
{
    static const char *const files[] = {
        [USAGE_ROLLUP] = "smaps_rollup", [USAGE_SMAPS] = "smaps", [USAGE_STATUS] = "status"};
    ssize_t n = 0;

    for (unsigned i = 0; i < ARRAY_LEN(files); i++) {
        AUTO_FREE char *text = NULL;
        n = procfs_slurp(target->proc, &text, SMAPS_LIMIT, "%d/%s", (int)target_via(target),
                         files[i]);
        if (n > 0 && parse_usage(text, (size_t)n, usage)) {
            *source = (enum usage_source)i;
            return FAULT_NONE;
        }
    }
    /* One that is ending has no memory any more, and says so in various ways. */
    fault_code rc = target_check_end(target, fault);
    if (rc != FAULT_NONE)
        return rc;
    return fault_set(fault, FAULT_INTERNAL, n < 0 ? (int)-n : 0, "read the memory use",
                     "the kernel does not tell its use of memory");
}
