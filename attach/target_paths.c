#include "attach/target_paths.h"
#include "host/inroot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

bool target_has_own_root(const struct target *target)
{
    char own[64], its[64];
    struct stat here, there;

    if (target->record)
        return target->record->root >= 0;
    if (procfs_readlink(target->proc, own, sizeof own, "self/ns/mnt") < 0)
        return false;
    const bool ended =
        procfs_readlink(target->proc, its, sizeof its, "%d/ns/mnt", (int)target_via(target)) < 0;
    if (ended && !target->kept_root)
        return false;
    if (!ended && strcmp(own, its) != 0)
        return true;
    char root[32];
    snprintf(root, sizeof root, "%d/root/.", (int)target_via(target));
    if (stat("/", &here) ||
        (ended ? fstat(*target->kept_root, &there) : fstatat(target->proc->dirfd, root, &there, 0)))
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
 * Removes the target's root from a path that the kernel shows. Such a path starts
 * at the reader's root or, if the file is not below that, at the root of its mount
 * namespace (d_path): it includes the directory of a chroot, which the link
 * /proc/PID/root shows. Returns path itself if there is nothing to remove.
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

/* Reads its working directory as the target sees it. */
static int own_directory(const struct target *target, char *out, size_t size)
{
    char cwd[PATH_MAX];
    ssize_t n = procfs_readlink(target->proc, cwd, sizeof cwd, "%d/cwd", (int)target_via(target));

    if (n < 0)
        return (int)n;
    snprintf(out, size, "%s", without_root(target, cwd));
    return 0;
}

/* Returns an O_PATH file descriptor, or -errno. */
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

/* pidfd_open(2) since Linux 6.9: for a thread */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

/*
 * Duplicates the target's fd. pidfd_getfd(2) uses the table of the pidfd's thread,
 * which may differ between threads. Returns -1 if no fitting pidfd is available.
 */
static int duplicate_fd(const struct target *target, int fd)
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

int target_fd_path(const struct target *target, const struct target *holder, int fd, char *out,
                   size_t size)
{
    AUTO_CLOSE int named =
        procfs_openf(holder->proc, O_PATH, "%d/fd/%d", (int)target_via(holder), fd);
    char text[PATH_MAX];
    const char *path;
    struct stat file, found;

    /*
     * The directory fd belongs to the target's user, and CAP_SYS_PTRACE alone does not
     * open another user's; but it allows a duplicate (pidfd_getfd(2), since Linux 5.6).
     */
    if (named < 0) {
        int taken = duplicate_fd(holder, fd);
        if (taken < 0)
            return named;
        named = taken;
    }
    if (fstat(named, &file))
        return -errno;
    ssize_t n = procfs_readlink(target->proc, text, sizeof text, "self/fd/%d", named);
    if (n < 0)
        return (int)n;
    path = without_root(target, text);
    if (path[0] != '/' || target_stat(target, path, &found) != 0 || found.st_dev != file.st_dev ||
        found.st_ino != file.st_ino)
        return -ESTALE;
    return snprintf(out, size, "%s", path) < (int)size ? 0 : -ENAMETOOLONG;
}

bool target_sees_same_files(const struct target *target, const struct target *view)
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
