#include "host/procfs.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 1280 }; /* a cgroup's directory can have a long name */

int procfs_open(struct procfs *proc, const char *path)
{
    proc->dirfd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return proc->dirfd < 0 ? -errno : 0;
}

void procfs_close(struct procfs *proc)
{
    util_close(&proc->dirfd);
}

#define FORMAT_NAME(name, fmt)                                                                     \
    do {                                                                                           \
        va_list ap_;                                                                               \
        va_start(ap_, fmt);                                                                        \
        int n_ = vsnprintf(name, sizeof(name), fmt, ap_);                                          \
        va_end(ap_);                                                                               \
        if (n_ < 0 || (size_t)n_ >= sizeof(name))                                                  \
            return -ENAMETOOLONG;                                                                  \
    } while (0)

static int open_in_proc(const struct procfs *proc, int flags, const char *name)
{
    int fd = openat(proc->dirfd, name, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

ssize_t procfs_read_fd(int fd, char *buf, size_t size)
{
    size_t used = 0;

    while (used < size - 1) {
        ssize_t n = read(fd, buf + used, size - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    buf[used] = '\0';
    return (ssize_t)used;
}

ssize_t procfs_read(const struct procfs *proc, char *buf, size_t size, const char *fmt, ...)
{
    char name[NAME_SIZE];
    AUTO_CLOSE int fd = -1;

    FORMAT_NAME(name, fmt);
    fd = open_in_proc(proc, O_RDONLY, name);
    return fd < 0 ? fd : procfs_read_fd(fd, buf, size);
}

ssize_t procfs_slurp(const struct procfs *proc, char **out, size_t limit, const char *fmt, ...)
{
    char name[NAME_SIZE];
    AUTO_CLOSE int fd = -1;
    AUTO_FREE char *buf = NULL;
    size_t size = 0, used = 0;

    *out = NULL;
    FORMAT_NAME(name, fmt);
    fd = open_in_proc(proc, O_RDONLY, name);
    if (fd < 0)
        return fd;
    for (;;) {
        if (size - used < 2) { /* one byte is for a NUL */
            size = size ? size * 2 : 32768;
            char *larger = realloc(buf, size);
            if (!larger)
                return -ENOMEM;
            buf = larger;
        }
        ssize_t n = procfs_read_fd(fd, buf + used, size - used);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        used += (size_t)n;
        if (used > limit)
            return -EFBIG;
    }
    *out = steal_ptr(&buf);
    return (ssize_t)used;
}

ssize_t procfs_readlink(const struct procfs *proc, char *buf, size_t size, const char *fmt, ...)
{
    char name[NAME_SIZE];

    FORMAT_NAME(name, fmt);
    ssize_t n = readlinkat(proc->dirfd, name, buf, size - 1);
    if (n < 0)
        return -errno;
    buf[n] = '\0';
    return n;
}

int procfs_openf(const struct procfs *proc, int flags, const char *fmt, ...)
{
    char name[NAME_SIZE];

    FORMAT_NAME(name, fmt);
    return open_in_proc(proc, flags, name);
}

const char *procfs_name(pid_t pid, char out[PROC_NAME_MAX])
{
    if (pid == PROC_SELF)
        strcpy(out, "self");
    else
        snprintf(out, PROC_NAME_MAX, "%d", (int)pid);
    return out;
}

enum { MEMINFO_TEXT_MAX = 8192 };

bool meminfo_parse(struct cursor text, const char *key, uint64_t *bytes)
{
    return cursor_find_number(text, key, bytes) && !__builtin_mul_overflow(*bytes, 1024u, bytes);
}

bool meminfo_read(const struct procfs *proc, const char *key, uint64_t *bytes)
{
    char text[MEMINFO_TEXT_MAX];
    ssize_t n = procfs_read(proc, text, sizeof text, "meminfo");

    return n > 0 && meminfo_parse(cursor_of(text, (size_t)n), key, bytes);
}
