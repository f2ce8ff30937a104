#include "elf/modulefile.h"
#include "elf/image.h"
#include "elf/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* ---- module_open: the file behind a mapping, and no other file ---- */

enum { COMPARED_BLOCK = 16 << 10, COMPARED_MAX = 1 << 20 };

static bool compare_bytes(const struct image *image, const Elf64_Phdr *ph, int fd)
{
    unsigned char mapped[COMPARED_BLOCK], file[COMPARED_BLOCK];
    uint64_t size = ph->p_filesz < COMPARED_MAX ? ph->p_filesz : COMPARED_MAX;

    for (uint64_t done = 0; done < size;) {
        size_t n = size - done < COMPARED_BLOCK ? (size_t)(size - done) : COMPARED_BLOCK;
        if (!memory_read(image->memory, ph->p_vaddr + image->bias + done, mapped, n) ||
            !file_read(fd, ph->p_offset + done, file, n) || memcmp(mapped, file, n) != 0)
            return false;
        done += n;
    }
    return true;
}

/* True if the headers and the inspected part of the code are the same. */
static bool same_content(const struct image *image, int fd)
{
    const size_t size = image->phdr_count * sizeof *image->phdrs;
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    Elf64_Ehdr header;
    bool compared = false;

    if (!file_read(fd, 0, &header, sizeof header) ||
        memcmp(&header, &image->header, sizeof header) != 0 ||
        !file_read(fd, header.e_phoff, phdrs, size) || memcmp(phdrs, image->phdrs, size) != 0)
        return false;
    for (size_t i = 0; i < image->phdr_count; i++) {
        const Elf64_Phdr *ph = &image->phdrs[i];
        if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X) || ph->p_flags & PF_W)
            continue;
        if (!compare_bytes(image, ph, fd))
            return false;
        compared = true;
    }
    return compared;
}

static uint64_t file_page(uint64_t addr)
{
    return addr & ~(uint64_t)(MEMORY_PAGE - 1);
}

/* True if the loader would have put the code of that file where the module had it. */
static bool same_place(const struct module *module, int fd)
{
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    size_t count = file_phdrs(fd, phdrs);
    uint64_t first = UINT64_MAX;

    for (size_t i = 0; i < count; i++) {
        const Elf64_Phdr *ph = &phdrs[i];
        if (ph->p_type == PT_LOAD && first == UINT64_MAX)
            first = file_page(ph->p_vaddr);
        if (ph->p_type == PT_LOAD && ph->p_flags & PF_X)
            return file_page(ph->p_vaddr) - first == module->exec_start - module->start &&
                   file_page(ph->p_vaddr + ph->p_filesz + MEMORY_PAGE - 1) - first ==
                       module->exec_end - module->start;
    }
    return false;
}

/*
 * A core file records no device and inode. Without build-ids (musl's distributions link
 * without), or if it lacks the page that contains the note, the headers decide, and if
 * it lacks these, the place of the code.
 */
static bool is_recorded_file(int fd, const struct module *module, struct memory *memory)
{
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    struct build_id file, mapped;
    struct image image;

    if (!image_open(&image, memory, module->start))
        return same_place(module, fd);
    if (image_build_id(&image, &mapped))
        return file_build_id(fd, &file) && file.len == mapped.len &&
               memcmp(file.bytes, mapped.bytes, file.len) == 0;
    size_t count = file_phdrs(fd, phdrs);
    return count == image.phdr_count && memcmp(phdrs, image.phdrs, count * sizeof *phdrs) == 0;
}

/*
 * The build-id decides. Without build-ids device and inode decide; but for an
 * overlay /proc/PID/maps shows those of the lower file (ovl_mmap), and for
 * btrfs those of the whole file system, while the file has another device: then
 * the contents decide.
 */
static bool is_mapped_file(int fd, const struct module *module, struct memory *memory)
{
    struct build_id file, mapped;
    struct image image;
    struct stat st;

    if (fstat(fd, &st))
        return false;
    bool open = image_open(&image, memory, module->start);
    if (open && image_build_id(&image, &mapped) && file_build_id(fd, &file))
        return file.len == mapped.len && memcmp(file.bytes, mapped.bytes, file.len) == 0;
    if (major(st.st_dev) == module->dev_major && minor(st.st_dev) == module->dev_minor)
        return st.st_ino == module->inode;
    return open && same_content(&image, fd);
}

/*
 * The path comes from the kernel and contains no link (d_path). In the tool's
 * root a link in it was created later and may lead anywhere on the host; in the
 * target's own root no link can lead outside.
 */
static int open_path_in_root(const struct target *root_of, const char *path)
{
    AUTO_CLOSE int root = root_open(root_of);

    return root < 0 ? root : root_open_file(root, path, root_of ? INROOT_FOLLOW : INROOT_NO_LINKS);
}

/*
 * /proc/PID/maps shows paths relative to the reader's root, or to the root of
 * the mount namespace; there the chroot directory of the target is a prefix
 * (d_path). Removes the prefix that the link /proc/PID/root shows.
 */
static int open_below_chroot(const struct target *target, const char *path)
{
    char root[PATH_MAX];
    ssize_t n = procfs_readlink(target->proc, root, sizeof root, "%d/root", target_via(target));

    if (n <= 1 || strncmp(path, root, (size_t)n) != 0 || path[n] != '/')
        return -ENOENT;
    return open_path_in_root(target, path + n);
}

/* Opens the program that the operator has named, or a path below the root of a core file. */
static int open_of_record(const struct module *module, const struct target *target,
                          struct memory *memory)
{
    const struct target_record *record = target->record;
    enum inroot_links links = record->root >= 0 ? INROOT_FOLLOW : INROOT_NO_LINKS;
    AUTO_CLOSE int fd = -1, root = -1;

    if (record->program >= 0 && record->program_at >= module->start &&
        record->program_at < module->end) {
        fd = regular_open(record->program);
    } else {
        root = root_open(target);
        fd = root < 0 ? root : root_open_file(root, module->path, links);
    }
    if (fd < 0)
        return fd == -EINVAL ? -ESTALE : fd;
    return is_recorded_file(fd, module, memory) ? steal_fd(&fd) : -ESTALE;
}

enum file_way { BY_MAPPING, BY_PROGRAM, BY_PATH, BELOW_CHROOT, BY_PATH_FROM_HERE, FILE_WAYS };

static int open_way(enum file_way way, const struct module *module, const struct target *target)
{
    AUTO_CLOSE int named = -1;
    char marked[PATH_MAX];

    switch (way) {
    case BY_MAPPING:
        named =
            procfs_openf(target->proc, O_PATH, "%d/map_files/%llx-%llx", target_via(target),
                         (unsigned long long)module->start, (unsigned long long)module->first_end);
        return named < 0 ? named : regular_open(named);
    case BY_PROGRAM:
        named = procfs_openf(target->proc, O_PATH, "%d/exe", target_via(target));
        return named < 0 ? named : regular_open(named);
    case BY_PATH:
        if (!module->deleted)
            return open_path_in_root(target, module->path);
        /* /proc/PID/maps marks an unlinked file; a name may also end in that text. */
        if (snprintf(marked, sizeof marked, "%s (deleted)", module->path) >= (int)sizeof marked)
            return -ENOENT;
        return open_path_in_root(target, marked);
    case BELOW_CHROOT:
        return module->deleted ? -ENOENT : open_below_chroot(target, module->path);
    default:
        return module->deleted ? -ENOENT : open_path_in_root(NULL, module->path);
    }
}

int module_open(const struct module *module, const struct target *target, struct memory *memory)
{
    int result = -ENOENT;

    if (module->inode == 0)
        return -ENOENT;
    if (target->record)
        return open_of_record(module, target, memory);
    for (enum file_way way = 0; way < FILE_WAYS; way++) {
        AUTO_CLOSE int fd = open_way(way, module, target);
        if (fd >= 0 && is_mapped_file(fd, module, memory))
            return steal_fd(&fd);
        if (way != BY_PROGRAM && (fd >= 0 || fd == -EINVAL))
            result = -ESTALE;
        else if (way == BY_MAPPING && fd != -ENOENT)
            result = fd;
    }
    return result;
}

/* ---- by paths in a root ---- */

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

/* ---- files that stay open ---- */

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

void kept_files_renew(struct kept_files *kept, const struct modules *modules, struct target *target,
                      struct memory *memory)
{
    struct kept_file *list = calloc(modules->count ? modules->count : 1, sizeof *list);
    size_t count = 0;

    target->kept_root = NULL; /* root_open shows the present one */
    int root = root_open(target);
    if (root >= 0) {
        if (kept->renewed)
            util_close(&kept->root);
        kept->root = root;
        kept->renewed = true;
    }
    target->kept_root = kept->renewed ? &kept->root : NULL;
    if (!list)
        return;
    for (size_t i = 0; i < modules->count && count < KEPT_FILES_MAX; i++) {
        const struct module *module = &modules->list[i];
        if (!module->inode || module->exec_start == module->exec_end)
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
