#include "host/codefiles.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

/* include/uapi/linux/fs.h, struct procmap_query: not in the headers of older C libraries. */
struct procmap_query {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset;
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint32_t vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};
_Static_assert(sizeof(struct procmap_query) == 104, "struct procmap_query");
_Static_assert(offsetof(struct procmap_query, inode) == 64, "struct procmap_query");
_Static_assert(offsetof(struct procmap_query, vma_name_addr) == 88, "struct procmap_query");

enum { QUERY_EXECUTABLE = 0x04, QUERY_NEXT = 0x10, QUERY_FILE = 0x20 };
#define QUERY_IOCTL _IOWR('f', 17, struct procmap_query)

static ssize_t list_mappings(int fd, struct code_file *list, struct iovec *heads)
{
    remote_addr addr = 0;
    ssize_t count = 0;

    for (;;) {
        struct procmap_query found = {
            .size = sizeof found,
            .query_flags = QUERY_EXECUTABLE | QUERY_NEXT | QUERY_FILE,
            .query_addr = addr,
        };
        if (ioctl(fd, QUERY_IOCTL, &found) < 0) /* ENOENT: none at or after addr */
            return errno == ENOENT ? count : -errno;
        if (count == CODE_FILES_MAX)
            return -E2BIG;
        if (found.vma_end <= addr || found.vma_end - found.vma_start < CODE_HEAD)
            return -EPROTO;
        list[count] = (struct code_file){
            .size = found.vma_end - found.vma_start,
            .offset = found.vma_offset,
            .inode = found.inode,
            .dev_major = found.dev_major,
            .dev_minor = found.dev_minor,
        };
        heads[count++] = (struct iovec){(void *)(uintptr_t)found.vma_start, CODE_HEAD};
        addr = found.vma_end;
    }
}

ssize_t code_files(const struct procfs *proc, pid_t pid, struct code_file *list)
{
    struct iovec heads[CODE_FILES_MAX], local[CODE_FILES_MAX];
    AUTO_CLOSE int fd = procfs_openf(proc, O_RDONLY, "%d/maps", (int)pid);
    ssize_t count, n;

    if (fd < 0)
        return fd;
    count = list_mappings(fd, list, heads);
    if (count <= 0)
        return count;
    for (ssize_t i = 0; i < count; i++)
        local[i] = (struct iovec){list[i].head, CODE_HEAD};
    /* Reads all heads with one system call: to pin a page of a file copies nothing. */
    n = process_vm_readv(pid, local, (size_t)count, heads, (size_t)count, 0);
    if (n < 0)
        return -errno;
    return n == count * CODE_HEAD ? count : -EFAULT;
}
