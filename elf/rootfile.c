#include "elf/rootfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

int root_open(const struct target *target)
{
    if (target)
        return procfs_openf(target->proc, O_PATH | O_DIRECTORY, "%d/root", target_via(target));
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int regular_open(int named)
{
    char name[32];
    struct stat st;

    if (fstat(named, &st))
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    snprintf(name, sizeof name, "/proc/self/fd/%d", named);
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a lease: EWOULDBLOCK */
    return fd < 0 ? -errno : fd;
}

static bool is_own_root(int root)
{
    struct stat here, there;

    return stat("/", &here) == 0 && fstat(root, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

/* Before Linux 5.6 there is no openat2(2): of the tool's own root nothing leads outside. */
static int name_in_root(int root, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    int named = (int)syscall(SYS_openat2, root, path, &how, sizeof how);

    if (named < 0 && errno == ENOSYS && path[0] == '/' && is_own_root(root))
        named = open(path, O_PATH | O_CLOEXEC);
    return named < 0 ? -errno : named;
}

int root_open_file(int root, const char *path)
{
    AUTO_CLOSE int named = name_in_root(root, path);

    return named < 0 ? named : regular_open(named);
}
