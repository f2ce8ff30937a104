#include "host/pressure.h"
#include "base/util.h"
#include "host/cgroup_dir.h"
#include "host/inroot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 512 };

/* The digits behind "total=" in one line. */
static bool take_total(const char *line, size_t len, uint64_t *out)
{
    static const char key[] = " total=";
    const char *p = memmem(line, len, key, sizeof key - 1), *end = line + len;

    if (!p)
        return false;
    p += sizeof key - 1;
    const char *first = p;
    for (*out = 0; p < end && *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (*out > (UINT64_MAX - digit) / 10)
            return false;
        *out = *out * 10 + digit;
    }
    return p != first;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" (kernel/sched/psi.c, psi_show) */
bool pressure_parse(const char *text, size_t len, struct pressure *out)
{
    static const char *const names[] = {[PRESSURE_SOME] = "some ", [PRESSURE_FULL] = "full "};
    bool some = false;

    memset(out, 0, sizeof *out);
    while (len > 0) {
        const char *eol = memchr(text, '\n', len);
        size_t line = eol ? (size_t)(eol - text) : len;
        for (unsigned kind = 0; kind < PRESSURE_KINDS; kind++) {
            size_t n = strlen(names[kind]);
            if (line < n || memcmp(text, names[kind], n) != 0)
                continue;
            if (!take_total(text, line, &out->stalled_us[kind]))
                return false;
            some |= kind == PRESSURE_SOME;
        }
        line += eol != NULL;
        text += line;
        len -= line;
    }
    return some;
}

/* Where PSI is switched off, the open or the first read fails (EOPNOTSUPP). */
static int take_file(struct pressure_file *file, int fd)
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

    file->fd = -1;
    file->whole_host = false;
    if (cgroup_dir_find(proc, pid, CGROUP_V2, &dir) &&
        take_file(file, cgroup_dir_open(proc, &dir, "memory.pressure")) == 0)
        return 0;
    file->whole_host = true;
    return take_file(file, procfs_openf(proc, O_RDONLY, "pressure/memory"));
}

void pressure_close(struct pressure_file *file)
{
    util_close(&file->fd);
    file->fd = -1;
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
    AUTO_CLOSE int fd = named_open(file->fd, O_RDWR); /* that very file, whatever has its name */
    char text[64];
    int n = snprintf(text, sizeof text, "%s %" PRIu64 " %" PRIu64,
                     kind == PRESSURE_FULL ? "full" : "some", stall_us, window_us);

    if (fd < 0)
        return fd;
    if (write(fd, text, (size_t)n + 1) < 0) /* the NUL is part of it */
        return -errno;
    return steal_fd(&fd);
}
