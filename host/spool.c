#include "host/spool.h"
#include "base/util.h"
#include "host/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>

enum { BLOCK = 1 << 20, HOLE = 64 << 10 };

static uint64_t memory_to_spare(void)
{
    struct procfs proc;
    uint64_t bytes = 0;

    if (procfs_open(&proc, "/proc") != 0)
        return 0;
    (void)meminfo_read(&proc, "MemAvailable:", &bytes);
    procfs_close(&proc);
    return bytes / 2;
}

static int make_file_in(const char *directory, uint64_t *limit)
{
    AUTO_CLOSE int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    struct statfs fs;

    if (fd < 0 || fstatfs(fd, &fs))
        return -1;
    *limit = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize / 10 * 9;
    if (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC) {
        uint64_t spare = memory_to_spare();
        *limit = *limit && *limit < spare ? *limit : spare;
    }
    return *limit ? steal_fd(&fd) : -1;
}

static int make_file(uint64_t *limit)
{
    const char *const directories[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
    int fd = -1;

    for (size_t i = 0; fd < 0 && i < ARRAY_LEN(directories); i++)
        if (directories[i])
            fd = make_file_in(directories[i], limit);
    if (fd >= 0)
        return fd;
    *limit = memory_to_spare();
    fd = memfd_create("core", MFD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int write_all(int out, const unsigned char *bytes, size_t len, uint64_t at)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(out, bytes + done, len - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    return 0;
}

/* Writes the pieces that are not zero; the file has holes in place of the others. */
static int write_sparse(int out, const unsigned char *bytes, size_t len, uint64_t at)
{
    int err = 0;

    for (size_t done = 0; done < len && !err; done += HOLE) {
        const unsigned char *piece = bytes + done;
        size_t n = len - done < HOLE ? len - done : HOLE;
        if (piece[0] || memcmp(piece, piece + 1, n - 1) != 0)
            err = write_all(out, piece, n, at + done);
    }
    return err;
}

/* Reads a whole block, or up to the end. Returns its length or -errno. */
static ssize_t read_block(int fd, unsigned char *block, const volatile sig_atomic_t *interrupted)
{
    size_t used = 0;

    while (used < BLOCK) {
        ssize_t n = read(fd, block + used, BLOCK - used);
        if (n < 0 && errno == EINTR && !(interrupted && *interrupted))
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    return interrupted && *interrupted ? -EINTR : (ssize_t)used;
}

static int copy_blocks(int fd, int out, const char *begin, const volatile sig_atomic_t *interrupted,
                       struct spool_result *result)
{
    AUTO_FREE unsigned char *block = calloc(1, BLOCK);
    ssize_t n;
    int err;

    if (!block)
        return -ENOMEM;
    while ((n = read_block(fd, block, interrupted)) > 0) {
        if ((uint64_t)n > result->limit - result->bytes)
            return -EFBIG;
        err = write_sparse(out, block, (size_t)n, result->bytes);
        if (err)
            return err;
        result->bytes += (uint64_t)n;
        if (result->bytes == (uint64_t)n && strncmp((const char *)block, begin, strlen(begin)) != 0)
            break;
    }
    if (n < 0)
        return (int)n;
    return ftruncate(out, (off_t)result->bytes) ? -errno : 0;
}

int spool_pipe(int fd, const char *begin, const volatile sig_atomic_t *interrupted,
               struct spool_result *result)
{
    AUTO_CLOSE int out = -1;
    int err;

    *result = (struct spool_result){0, 0};
    (void)fcntl(fd, F_SETPIPE_SZ, BLOCK); /* fewer and larger reads, where that is allowed */
    out = make_file(&result->limit);
    if (out < 0)
        return out;
    err = copy_blocks(fd, out, begin, interrupted, result);
    return err ? err : steal_fd(&out);
}
