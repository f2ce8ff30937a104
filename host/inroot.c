#include "host/inroot.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

enum { LINKS_MAX = 40 /* as in the kernel */, DEPTH_MAX = 128, NAME_SIZE = NAME_MAX + 1 };

/* A walk down from the root; ".." goes back to a directory that is still open. */
struct walk {
    int dirs[DEPTH_MAX];
    size_t depth;
    int links;                        /* how many more may be followed */
    const struct inroot_guard *guard; /* NULL: every link may be followed */
    char path[2 * PATH_MAX];          /* with the texts of the links put in */
    const char *rest;                 /* the part of path that is still to be walked */
};

static void walk_up(struct walk *walk)
{
    if (walk->depth > 1) /* the parent of the root is the root */
        close(walk->dirs[--walk->depth]);
}

/* Takes the next component off the rest; false at its end. */
static bool next_component(struct walk *walk, char part[NAME_SIZE], int *err)
{
    size_t skip = strspn(walk->rest, "/"), n = strcspn(walk->rest + skip, "/");

    if (n >= NAME_SIZE)
        *err = -ENAMETOOLONG;
    if (n == 0 || n >= NAME_SIZE)
        return false;
    memcpy(part, walk->rest + skip, n);
    part[n] = '\0';
    walk->rest += skip + n;
    return true;
}

/* Inserts the text of a link before the rest. */
static int insert_link(struct walk *walk, int link)
{
    char text[2 * PATH_MAX];
    ssize_t n = readlinkat(link, "", text, PATH_MAX);

    if (n < 0)
        return -errno;
    if (n == 0)
        return -ENOENT;
    if (n >= PATH_MAX || strlen(walk->rest) >= PATH_MAX)
        return -ENAMETOOLONG;
    if (walk->links-- == 0)
        return -ELOOP;
    while (text[0] == '/' && walk->depth > 1)
        walk_up(walk);
    memcpy(text + n, walk->rest, strlen(walk->rest) + 1);
    memcpy(walk->path, text, strlen(text) + 1);
    walk->rest = walk->path;
    return 0;
}

/* Walks one component; the kernel follows no link. */
static int walk_component(struct walk *walk, const char *part)
{
    const int dir = walk->dirs[walk->depth - 1];
    const struct inroot_guard *guard = walk->guard;
    AUTO_CLOSE int named = openat(dir, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (named < 0 || fstat(named, &st))
        return -errno;
    if (S_ISLNK(st.st_mode)) {
        int rc = guard ? guard->may_follow(guard->ctx, dir, part, &st) : 0;
        return rc ? rc : insert_link(walk, named);
    }
    if (walk->rest[0] && !S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (walk->depth == DEPTH_MAX)
        return -ENAMETOOLONG;
    /* O_DIRECTORY triggers an automount, like openat2 on the way to a file. */
    int next = S_ISDIR(st.st_mode)
                   ? openat(dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                   : steal_fd(&named);
    if (next < 0)
        return -errno;
    walk->dirs[walk->depth++] = next;
    return 0;
}

static int walk_components(struct walk *walk)
{
    char part[NAME_SIZE];
    int err = 0;

    while (!err && next_component(walk, part, &err)) {
        if (strcmp(part, "..") == 0)
            walk_up(walk);
        else if (strcmp(part, ".") != 0)
            err = walk_component(walk, part);
    }
    return err ? err : walk->dirs[--walk->depth];
}

static int walk_from(struct walk *walk, int root, const char *path)
{
    int fd;

    if (!*path)
        return -ENOENT;
    if (strlen(path) >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(walk->path, path, strlen(path) + 1);
    walk->rest = walk->path;
    walk->dirs[0] = fcntl(root, F_DUPFD_CLOEXEC, 0);
    if (walk->dirs[0] < 0)
        return -errno;
    walk->depth = 1;
    fd = walk_components(walk);
    while (walk->depth > 0)
        close(walk->dirs[--walk->depth]);
    return fd;
}

int inroot_walk(int root, const char *path, enum inroot_links links)
{
    struct walk walk = {.links = links == INROOT_FOLLOW ? LINKS_MAX : 0};

    return walk_from(&walk, root, path);
}

int inroot_walk_guarded(int root, const char *path, const struct inroot_guard *guard)
{
    struct walk walk = {.links = LINKS_MAX, .guard = guard};

    return walk_from(&walk, root, path);
}

/* EPERM: a container's seccomp profile does not know openat2; EAGAIN: a rename raced with "..". */
int inroot_name(int root, const char *path, enum inroot_links links)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT |
                   (links == INROOT_FOLLOW ? RESOLVE_NO_MAGICLINKS : RESOLVE_NO_SYMLINKS),
    };
    int named = (int)syscall(SYS_openat2, root, path, &how, sizeof how);

    if (named >= 0)
        return named;
    if (errno == ENOSYS || errno == EPERM || errno == EAGAIN)
        return inroot_walk(root, path, links);
    return -errno;
}

int named_open(int named, int flags)
{
    char name[32];

    snprintf(name, sizeof name, "/proc/self/fd/%d", named);
    int fd = open(name, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* EWOULDBLOCK: a lease */
    return fd < 0 ? -errno : fd;
}

int regular_open(int named)
{
    struct stat st;

    if (fstat(named, &st))
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return -EINVAL;
    return named_open(named, O_RDONLY);
}

/*
 * In a recording, which replaces /proc, files on the recording's file system count
 * as cgroup files.
 */
static bool is_of_groups(const struct procfs *proc, int fd)
{
    struct statfs fs, recorded;

    if (fstatfs(fd, &fs))
        return false;
    if (fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC)
        return true;
    return fstatfs(proc->dirfd, &recorded) == 0 && recorded.f_type != PROC_SUPER_MAGIC &&
           recorded.f_type == fs.f_type;
}

int group_name(const struct procfs *proc, int root, const char *path)
{
    AUTO_CLOSE int group = inroot_name(root, path, INROOT_FOLLOW);

    if (group < 0)
        return group;
    return is_of_groups(proc, group) ? steal_fd(&group) : -EINVAL;
}

int group_file_open(const struct procfs *proc, int group, const char *file)
{
    /*
     * Refuses a mount on the file itself: it could be another cgroup file, one that
     * acts when it is written.
     */
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    AUTO_CLOSE int named = (int)syscall(SYS_openat2, group, file, &how, sizeof how);
    struct stat st;

    if (named < 0 && (errno == ENOSYS || errno == EPERM || errno == EAGAIN))
        named = openat(group, file, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (named < 0 || fstat(named, &st))
        return -errno;
    if (!S_ISREG(st.st_mode) || !is_of_groups(proc, named))
        return -EINVAL;
    return named_open(named, O_RDONLY);
}

ssize_t group_file_read(const struct procfs *proc, int group, const char *file, char *buf,
                        size_t size)
{
    AUTO_CLOSE int fd = group_file_open(proc, group, file);

    return fd < 0 ? fd : procfs_read_fd(fd, buf, size);
}
