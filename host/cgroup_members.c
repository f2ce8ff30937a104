#include "host/cgroup_members.h"
#include "base/cursor.h"
#include "base/util.h"
#include "host/faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

enum { DEPTH_MAX = 64, MEMBERS_TEXT_MAX = 16 << 20 };

static bool is_group(int dirfd)
{
    return faccessat(dirfd, "cgroup.procs", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * Opens the path as the operator wrote it, through any link; the directory at its
 * end must be a cgroup.
 */
static int open_absolute(const char *path)
{
    AUTO_CLOSE int fd = path[0] == '/' ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    struct statfs fs;

    if (fd < 0 || fstatfs(fd, &fs) || !is_group(fd))
        return -1;
    return fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC ? steal_fd(&fd) : -1;
}

/* Opens the path as if root were "/". */
static int open_in_root(int root, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    AUTO_CLOSE int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);

    if (fd < 0 && errno == ENOSYS && !strstr(path, "..")) /* before Linux 5.6 */
        fd = openat(root, path + strspn(path, "/"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && is_group(fd) ? steal_fd(&fd) : -1;
}

/* Skips processes of another pid namespace: they are listed as 0 (cgroup_procs_show). */
static bool add_members(struct processes *members, const struct procfs *group)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = procfs_slurp(group, &text, MEMBERS_TEXT_MAX, "cgroup.procs");
    struct cursor rest, line;
    uint64_t pid;
    bool good = true;

    if (n == -ENOMEM)
        return false;
    rest = cursor_of(text, n > 0 ? (size_t)n : 0);
    while (good && cursor_take_line(&rest, &line))
        if (cursor_take_decimal(&line, &pid) && pid > 0 && pid <= INT32_MAX)
            good = processes_add(members, (pid_t)pid);
    return good;
}

/* Adds the members of a cgroup and of those below it. One that is removed in between has none. */
static bool collect_members(struct processes *members, int group, int depth)
{
    const struct procfs here = {.dirfd = group};
    int fd = openat(group, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    bool good = add_members(members, &here);

    if (!dir)
        util_close(&fd);
    while (dir && good && depth < DEPTH_MAX && (entry = readdir(dir))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        AUTO_CLOSE int below =
            openat(group, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        good = below < 0 || collect_members(members, below, depth + 1);
    }
    if (dir)
        closedir(dir);
    return good;
}

/* Takes over fd; counts the cgroups. */
static bool take_group(struct processes *members, int fd, size_t *groups)
{
    AUTO_CLOSE int group = fd;

    if (group < 0)
        return true;
    ++*groups;
    return collect_members(members, group, 0);
}

/* With cgroup v1 each hierarchy has a mount below the root, and the root is not a cgroup. */
static bool take_relative(struct processes *members, int root, const char *path, size_t *groups)
{
    bool good = take_group(members, open_in_root(root, path), groups);
    int fd = is_group(root) ? -1 : openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;

    if (!dir)
        util_close(&fd);
    while (dir && good && (entry = readdir(dir))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        AUTO_CLOSE int mount = open_in_root(root, entry->d_name);
        good = mount < 0 || take_group(members, open_in_root(mount, path), groups);
    }
    if (dir)
        closedir(dir);
    return good;
}

fault_code cgroup_members(struct processes *members, const char *root, const char *path,
                          struct fault *fault)
{
    AUTO_CLOSE int dirfd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t groups = 0;

    memset(members, 0, sizeof *members);
    bool good = take_group(members, open_absolute(path), &groups);
    if (good && !groups && dirfd >= 0)
        good = take_relative(members, dirfd, path, &groups);
    processes_sort(members);
    if (good && groups)
        return FAULT_NONE;
    processes_free(members);
    if (!good)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "list a cgroup", "%s", path);
    return fault_set(fault, FAULT_NO_GROUP, 0, "find the cgroup", "%s", path);
}
