/* module_open: opens the file behind a mapping, and no other file. */
#include "elf/image.h"
#include "elf/modules.h"
#include "elf/rootfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

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

/* True if the file has the same program headers. */
static bool same_layout(const struct image *image, int fd)
{
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    size_t count = file_phdrs(fd, phdrs);

    return count == image->phdr_count && memcmp(phdrs, image->phdrs, count * sizeof *phdrs) == 0;
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
    struct build_id file, mapped;
    struct image image;

    if (!image_open(&image, memory, module->start))
        return same_place(module, fd);
    if (image_build_id(&image, &mapped))
        return file_build_id(fd, &file) && file.len == mapped.len &&
               memcmp(file.bytes, mapped.bytes, file.len) == 0;
    return same_layout(&image, fd);
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

static int reopen_regular(int named)
{
    AUTO_CLOSE int close_named = named;

    return named < 0 ? named : regular_open(close_named);
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

/* True if the operator has named the file of this module. */
static bool is_named_program(const struct module *module, const struct target_record *record)
{
    return record->program >= 0 && record->program_at >= module->start &&
           record->program_at < module->end;
}

/* Opens the program that the operator has named, or a path below the root of a core file. */
static int open_recorded(const struct module *module, const struct target *target)
{
    const struct target_record *record = target->record;
    enum inroot_links links = record->root >= 0 ? INROOT_FOLLOW : INROOT_NO_LINKS;
    AUTO_CLOSE int root = -1;

    if (is_named_program(module, record))
        return regular_open(record->program);
    root = root_open(target);
    return root < 0 ? root : root_open_file(root, module->path, links);
}

static int open_of_record(const struct module *module, const struct target *target,
                          struct memory *memory)
{
    AUTO_CLOSE int fd = open_recorded(module, target);

    if (fd < 0)
        return fd == -EINVAL ? -ESTALE : fd;
    return is_recorded_file(fd, module, memory) ? steal_fd(&fd) : -ESTALE;
}

/* /proc/PID/maps marks an unlinked file with " (deleted)"; a name may also end in that text. */
static int open_by_path(const struct module *module, const struct target *target)
{
    char marked[PATH_MAX];

    if (!module->deleted)
        return open_path_in_root(target, module->path);
    if (snprintf(marked, sizeof marked, "%s (deleted)", module->path) >= (int)sizeof marked)
        return -ENOENT;
    return open_path_in_root(target, marked);
}

enum file_way { BY_MAPPING, BY_PROGRAM, BY_PATH, BELOW_CHROOT, BY_PATH_FROM_HERE, FILE_WAYS };

static int open_way(enum file_way way, const struct module *module, const struct target *target)
{
    switch (way) {
    case BY_MAPPING:
        return reopen_regular(procfs_openf(target->proc, O_PATH, "%d/map_files/%llx-%llx",
                                           target_via(target), (unsigned long long)module->start,
                                           (unsigned long long)module->first_end));
    case BY_PROGRAM:
        return reopen_regular(procfs_openf(target->proc, O_PATH, "%d/exe", target_via(target)));
    case BY_PATH:
        return open_by_path(module, target);
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
