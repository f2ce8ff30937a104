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

/*
 * Asks for the first mapping of code at or after addr. Returns 0 or -errno;
 * -ENOENT: there is none.
 */
static int query_mapping(int fd, remote_addr addr, struct procmap_query *out)
{
    *out = (struct procmap_query){
        .size = sizeof *out,
        .query_flags = QUERY_EXECUTABLE | QUERY_NEXT | QUERY_FILE,
        .query_addr = addr,
    };
    return ioctl(fd, QUERY_IOCTL, out) < 0 ? -errno : 0;
}

static ssize_t list_mappings(int fd, struct code_file *list, struct iovec *heads)
{
    struct procmap_query found;
    remote_addr addr = 0;
    ssize_t count = 0;
    int rc;

    while ((rc = query_mapping(fd, addr, &found)) == 0) {
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
    return rc == -ENOENT ? count : rc;
}

/* Reads all heads with one system call: to pin a page of a file copies nothing. */
static int read_heads(pid_t pid, struct code_file *list, const struct iovec *heads, size_t count)
{
    struct iovec local[CODE_FILES_MAX];

    for (size_t i = 0; i < count; i++)
        local[i] = (struct iovec){list[i].head, CODE_HEAD};
    ssize_t n = process_vm_readv(pid, local, count, heads, count, 0);
    if (n < 0)
        return -errno;
    return (size_t)n == count * CODE_HEAD ? 0 : -EFAULT;
}

ssize_t code_files(const struct procfs *proc, pid_t pid, struct code_file *list)
{
    struct iovec heads[CODE_FILES_MAX];
    AUTO_CLOSE int fd = procfs_openf(proc, O_RDONLY, "%d/maps", (int)pid);
    ssize_t count;
    int rc;

    if (fd < 0)
        return fd;
    count = list_mappings(fd, list, heads);
    if (count <= 0)
        return count;
    rc = read_heads(pid, list, heads, (size_t)count);
    return rc < 0 ? rc : count;
}
