#include "elf/kept_files.h"
#include "elf/rootfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static bool has_code(const struct module *module)
{
    return module->inode && module->exec_start != module->exec_end;
}

/* Takes the file descriptor of the same module out of the former list; -1: it has none. */
static int take_former(struct kept_files *former, const struct module *module)
{
    for (size_t i = 0; i < former->count; i++) {
        struct kept_file *file = &former->list[i];
        if (file->start == module->start && file->end == module->end &&
            file->inode == module->inode)
            return steal_fd(&file->fd);
    }
    return -1;
}

static void close_list(struct kept_files *kept)
{
    for (size_t i = 0; i < kept->count; i++)
        util_close(&kept->list[i].fd);
    free(kept->list);
    kept->list = NULL;
    kept->count = 0;
}

static void keep_root(struct kept_files *kept, struct target *target)
{
    int root;

    target->kept_root = NULL; /* root_open shows the present one */
    root = root_open(target);
    if (root >= 0) {
        if (kept->renewed)
            util_close(&kept->root);
        kept->root = root;
        kept->renewed = true;
    }
    target->kept_root = kept->renewed ? &kept->root : NULL;
}

void kept_files_renew(struct kept_files *kept, const struct modules *modules, struct target *target,
                      struct memory *memory)
{
    struct kept_file *list = calloc(modules->count ? modules->count : 1, sizeof *list);
    size_t count = 0;

    keep_root(kept, target);
    if (!list)
        return;
    for (size_t i = 0; i < modules->count && count < KEPT_FILES_MAX; i++) {
        const struct module *module = &modules->list[i];
        if (!has_code(module))
            continue;
        int fd = take_former(kept, module);
        if (fd < 0)
            fd = module_open(module, target, memory);
        list[count++] = (struct kept_file){module->start, module->end, module->inode, fd};
    }
    close_list(kept);
    kept->list = list;
    kept->count = count;
}

int kept_files_open(const struct kept_files *kept, remote_addr addr)
{
    for (size_t i = 0; i < kept->count; i++) {
        const struct kept_file *file = &kept->list[i];
        if (addr >= file->start && addr < file->end) {
            int fd = file->fd < 0 ? -1 : fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
            return fd >= 0 ? fd : file->fd < 0 ? -ENOENT : -errno;
        }
    }
    return -ENOENT;
}

void kept_files_close(struct kept_files *kept)
{
    close_list(kept);
    if (kept->renewed)
        util_close(&kept->root);
    kept->renewed = false;
}
