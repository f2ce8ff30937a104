#include "elf/rootfile.h"

#include <errno.h>
#include <fcntl.h>

/* Names the same directory again. */
static int reopen_root(int root)
{
    int fd = fcntl(root, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

int root_open(const struct target *target)
{
    if (target && target->record && target->record->root >= 0)
        return reopen_root(target->record->root);
    if (target && target->kept_root)
        return reopen_root(*target->kept_root);
    if (target && !target->record)
        return procfs_openf(target->proc, O_PATH | O_DIRECTORY, "%d/root", target_via(target));
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int root_open_file(int root, const char *path, enum inroot_links links)
{
    AUTO_CLOSE int named = inroot_name(root, path, links);

    return named < 0 ? named : regular_open(named);
}
