#include "elf/modulefile.h"
#include "profile/symbols/symbols.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

int symbols_open_in_target(void *ctx, const struct symbol_mapping *mapping)
{
    const struct symbols_target *live = ctx;
    const struct module *module = modules_at(live->modules, mapping->start);
    int fd = live->kept ? kept_files_open(live->kept, mapping->start) : -ENOENT;

    if (fd >= 0)
        return fd;
    return module ? module_open(module, live->target, live->memory) : -ENOENT;
}

/* perf(1) accepts the maps of its own user and of root; here the target is another user. */
static bool may_be_its_own(int fd, const struct target *target)
{
    struct stat st;

    return fstat(fd, &st) == 0 &&
           (st.st_uid == target->status.uid || st.st_uid == target->status.euid || st.st_uid == 0 ||
            st.st_uid == geteuid());
}

int symbols_open_map_in_target(void *ctx)
{
    const struct symbols_target *live = ctx;
    const struct target *target = live->target;
    AUTO_CLOSE int root = target->record ? -ENOENT : root_open(target);
    char path[64];

    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)target_ns_pid(target));
    AUTO_CLOSE int fd = root < 0 ? root : root_open_file(root, path, INROOT_FOLLOW);
    if (fd < 0)
        return fd;
    return may_be_its_own(fd, target) ? steal_fd(&fd) : -EPERM;
}
