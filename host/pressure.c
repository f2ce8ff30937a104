#include "host/pressure.h"
#include "base/util.h"
#include "host/cgroup.h"
#include "host/inroot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 512 };

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" (kernel/sched/psi.c, psi_show) */
bool pressure_parse(const char *text, size_t len, struct pressure *out)
{
    static const char *const names[] = {[PRESSURE_SOME] = "some ", [PRESSURE_FULL] = "full "};
    struct cursor all = cursor_of(text, len), line;
    bool some = false;

    memset(out, 0, sizeof *out);
    for (unsigned kind = 0; kind < PRESSURE_KINDS; kind++) {
        if (!cursor_find_line(all, names[kind], &line))
            continue;
        if (!cursor_find(&line, " total=") || !cursor_take_decimal(&line, &out->stalled_us[kind]))
            return false;
        some |= kind == PRESSURE_SOME;
    }
    return some;
}

/* Without PSI, the open or the first read fails (EOPNOTSUPP). */
static int adopt_file(struct pressure_file *file, int fd)
{
    struct pressure seen;

    file->fd = fd;
    if (fd < 0)
        return fd;
    errno = 0;
    if (pressure_read(file, &seen))
        return 0;
    int err = errno ? errno : ENODATA;
    pressure_close(file);
    return -err;
}

int pressure_open(struct pressure_file *file, const struct procfs *proc, pid_t pid)
{
    struct cgroup_dir dir;
    AUTO_CLOSE int group = -1;

    file->fd = -1;
    file->whole_host = false;
    if (cgroup_dir_find(proc, pid, CGROUP_V2, &dir))
        group = cgroup_dir_name(proc, &dir);
    if (group >= 0 && adopt_file(file, group_file_open(proc, group, "memory.pressure")) == 0)
        return 0;
    file->whole_host = true;
    return adopt_file(file, procfs_openf(proc, O_RDONLY, "pressure/memory"));
}

void pressure_close(struct pressure_file *file)
{
    util_close(&file->fd);
}

bool pressure_read(const struct pressure_file *file, struct pressure *out)
{
    char text[TEXT_MAX];
    ssize_t n = file->fd < 0 ? -1 : pread(file->fd, text, sizeof text, 0);

    return n > 0 && pressure_parse(text, (size_t)n, out);
}

int pressure_trigger(const struct pressure_file *file, enum pressure_kind kind, uint64_t stall_us,
                     uint64_t window_us)
{
    AUTO_CLOSE int fd =
        named_open(file->fd, O_RDWR); /* the same file, whatever its name leads to now */
    char text[64];
    int n = snprintf(text, sizeof text, "%s %" PRIu64 " %" PRIu64,
                     kind == PRESSURE_FULL ? "full" : "some", stall_us, window_us);

    if (fd < 0)
        return fd;
    if (write(fd, text, (size_t)n + 1) < 0) /* the kernel expects the NUL */
        return -errno;
    return steal_fd(&fd);
}
