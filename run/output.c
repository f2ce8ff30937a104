#include "run/output.h"
#include "base/interruptions.h"
#include "base/text.h"
#include "base/util.h"
#include "run/faults.h"
#include "run/filename.h"
#include "run/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

enum { STREAM_BUFFER = 64 << 10, NUMBERS_MAX = 100000 };

static fault_code output_failed(struct fault *fault, int err, const char *path)
{
    return fault_set(fault, FAULT_OUTPUT, err, "write output", "%s", path);
}

fault_code output_stdout_failed(struct fault *fault, int err)
{
    fault_code rc = output_failed(fault, err, "stdout");

    fault_set_reason(fault, err == EPIPE ? OUTPUT_READER_LEFT : OUTPUT_OTHER);
    return rc;
}

/* Names the entry that the rules of outfile.h forbid, and its owner. */
static fault_code refused(struct fault *fault, int err, const struct outfile *file,
                          const char *path)
{
    if (err != EACCES || !file->at[0])
        return output_failed(fault, err, path);
    return fault_set(fault, FAULT_OUTPUT_OTHERS, 0, "write output",
                     "'%.64s' on the path %.120s is a %s of user %u", file->at, path,
                     file->link ? "link" : "file", (unsigned)file->owner);
}

static void forget_temporary(struct output *output)
{
    interrupt_finished();
    free(output->temporary);
    output->temporary = NULL;
}

static fault_code open_temporary(struct output *output, struct fault *fault)
{
    struct stat st;

    output->temporary = strdup(".jeattach.XXXXXX"); /* short, so that it fits where the name fits */
    if (!output->temporary)
        return output_failed(fault, ENOMEM, output->path);
    output->fd = interrupt_make_unfinished(output->file.dir, output->temporary);
    if (output->fd < 0) {
        int err = errno;
        forget_temporary(output);
        return output_failed(fault, err, output->path);
    }
    if (!output->fresh &&
        fstatat(output->file.dir, output->file.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(st.st_mode) && st.st_uid == geteuid())
        fchmod(output->fd, st.st_mode & 0777);
    return FAULT_NONE;
}

/* The open of a FIFO waits for its reader; ticks of the deadline do not end it, Ctrl-C does. */
static fault_code open_special(struct output *output, struct fault *fault)
{
    char name[32];

    snprintf(name, sizeof name, "/proc/self/fd/%d", output->file.special);
    do
        output->fd = open(name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    while (output->fd < 0 && errno == EINTR && !*interrupt_flag());
    return output->fd < 0 ? output_failed(fault, errno, output->path) : FAULT_NONE;
}

/*
 * Writes to a copy of a file descriptor that the tool was started with. The tool opens its own,
 * which may lead to a target, with FD_CLOEXEC: they are refused.
 */
static fault_code open_descriptor(struct output *output, int fd, const char *path,
                                  struct fault *fault)
{
    bool inherited = fcntl(fd, F_GETFD) == 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;

    if (!inherited)
        return output_failed(fault, EBADF, path);
    output->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    output->path = strdup(path);
    return output->fd < 0 || !output->path ? output_failed(fault, errno, path) : FAULT_NONE;
}

static fault_code open_named(struct output *output, const char *path, bool may_exist,
                             struct fault *fault)
{
    int rc, fd = -1, end = 0;
    bool forbidden;

    /* A file descriptor, as "/dev/fd/3" names it. */
    if (strcmp(path, "/dev/stderr") == 0)
        fd = STDERR_FILENO;
    else if ((sscanf(path, "/dev/fd/%d%n", &fd, &end) == 1 ||
              sscanf(path, "/proc/self/fd/%d%n", &fd, &end) == 1) &&
             path[end])
        fd = -1;
    if (fd >= 0)
        return open_descriptor(output, fd, path, fault);

    /*
     * For a new file the last link is not followed, unless it leads to a FIFO or a device. If the
     * name must be free, an entry that the rules forbid is reported as such.
     */
    rc = outfile_find(&output->file, path, OUTFILE_FOLLOW);
    forbidden = rc == -EACCES && output->file.at[0] && !may_exist;
    if (output->fresh && (rc || output->file.special < 0) && !forbidden) {
        outfile_close(&output->file);
        rc = outfile_find(&output->file, path, OUTFILE_LAST_LINK);
    }
    if (rc)
        return refused(fault, -rc, &output->file, *path ? path : "''");
    output->path = strdup(path);
    if (!output->path)
        return output_failed(fault, ENOMEM, path);
    if (output->file.special >= 0)
        return open_special(output, fault);
    if (output->file.exists && !may_exist)
        return output_failed(fault, EEXIST, path);
    return open_temporary(output, fault);
}

static void reset_output(struct output *output, bool fresh)
{
    memset(output, 0, sizeof *output);
    output->fd = -1;
    output->fresh = fresh;
}

fault_code output_open(struct output *output, const char *path, struct fault *fault)
{
    reset_output(output, false);
    if (strcmp(path, "-") != 0)
        return open_named(output, path, true, fault);
    output->fd = dup(STDOUT_FILENO);
    output->path = strdup("stdout");
    output->standard = true;
    return output->fd < 0 ? output_failed(fault, errno, "stdout") : FAULT_NONE;
}

fault_code output_open_new(struct output *output, const char *path, bool may_number,
                           struct fault *fault)
{
    if (strcmp(path, "-") == 0)
        return output_open(output, path, fault);
    reset_output(output, true);
    return open_named(output, path, may_number, fault);
}

void output_set_mode(const struct output *output, int mode)
{
    mode_t mask;

    if (mode == OUTPUT_MODE_UNSET || !output->temporary)
        return;
    mask = umask(0);
    umask(mask);
    fchmod(output->fd, (mode_t)mode & ~mask);
}

fault_code output_open_named(struct output *output, const char *path, bool replace, int mode,
                             struct fault *fault)
{
    fault_code rc =
        replace ? output_open(output, path, fault) : output_open_new(output, path, false, fault);

    if (rc == FAULT_NONE)
        output_set_mode(output, mode);
    return rc;
}

bool output_name(struct output *output, const char *path)
{
    char *name = strdup(path);

    if (!name || !output->temporary) {
        free(name);
        return name != NULL;
    }
    free(output->path);
    output->path = name;
    return true;
}

bool output_may_retry(int fd)
{
    struct pollfd full = {.fd = fd, .events = POLLOUT};

    if (errno == EINTR)
        return !*interrupt_again_flag();
    if (errno != EAGAIN)
        return false;
    return poll(&full, 1, -1) > 0 || (errno == EINTR && !*interrupt_again_flag());
}

int output_write_all(int fd, const unsigned char *bytes, size_t len, int signals)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR && !output_may_retry(fd))
            return errno;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
        if (len > 0 && interruptions() >= signals)
            return EINTR;
    }
    return 0;
}

void output_write(struct output *output, const unsigned char *bytes, size_t len)
{
    if (!output->err)
        output->err = output_write_all(output->fd, bytes, len, OUTPUT_PATIENT);
}

/*
 * Keeps the errno, as stdio does not. A signal or the deadline ends the stream; the time for which
 * its reader is waited for does not count.
 */
static ssize_t stream_write(void *cookie, const char *bytes, size_t len)
{
    struct output *output = cookie;
    const uint64_t begun = clock_now();
    const bool ended = interruptions_ended(output->signals);
    const uint64_t end = interruptions_end_at(UINT64_MAX);

    if (!output->err && ended)
        output->err = interruptions() == output->signals ? ETIME : EINTR;
    if (!output->err)
        output->err =
            output_write_all(output->fd, (const unsigned char *)bytes, len, output->signals + 1);
    (void)interruptions_end_at(end == UINT64_MAX ? end : end + (clock_now() - begun));
    return output->err ? 0 : (ssize_t)len;
}

FILE *output_stream(struct output *output)
{
    static const cookie_io_functions_t functions = {.write = stream_write};
    FILE *stream = fopencookie(output, "w", functions);

    output->signals = interruptions();
    if (stream)
        setvbuf(stream, NULL, _IOFBF, STREAM_BUFFER);
    return stream;
}

/* Creates an empty file of that name first, which others cannot replace in a sticky directory. */
static int rename_onto_own(int dir, const char *from, const char *to)
{
    int err, fd = openat(dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno;
    close(fd);
    if (renameat(dir, from, dir, to) == 0)
        return 0;
    err = errno;
    unlinkat(dir, to, 0);
    return err;
}

/* Returns 0 or errno; EEXIST: the name is taken, and the existing file is unchanged. */
static int rename_new(int dir, const char *from, const char *to)
{
    if (renameat2(dir, from, dir, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    /* Not every file system supports that; link(2) does not overwrite either. */
    if (linkat(dir, from, dir, to, 0) == 0) {
        unlinkat(dir, from, 0);
        return 0;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
        return errno;
    return rename_onto_own(dir, from, to); /* some FUSE file systems have no hard links */
}

/* In a sticky directory another user may have taken the name in the meantime. */
static int rename_over(struct output *output)
{
    struct outfile *file = &output->file;
    int err;

    if (file->guarded) {
        err = rename_new(file->dir, output->temporary, file->name);
        if (err != EEXIST)
            return err;
        err = -outfile_replaceable(file, file->name);
        if (err)
            return err;
    }
    return renameat(file->dir, output->temporary, file->dir, file->name) ? errno : 0;
}

/* Uses the first free number, so that no recorded profile is lost because a name is taken. */
static int name_new(struct output *output)
{
    char name[FILENAME_MAX_BYTES], *copy;
    int err = EEXIST;

    for (unsigned i = output->number; err == EEXIST && i < NUMBERS_MAX; i++) {
        err = filename_number(output->path, i, name, sizeof name)
                  ? rename_new(output->file.dir, output->temporary, text_base_name(name))
                  : ENAMETOOLONG;
        output->number = i;
    }
    if (err)
        return err;
    copy = strdup(name);
    if (!copy)
        return ENOMEM;
    free(output->path);
    output->path = copy;
    return 0;
}

fault_code output_finish(struct output *output, const void *bytes, size_t len, struct fault *fault)
{
    const uint64_t begun = clock_now();
    int err = output->err ? output->err : output_write_all(output->fd, bytes, len, OUTPUT_PATIENT);

    if (!err && output->temporary && fsync(output->fd))
        err = errno;
    if (!err && close(output->fd))
        err = errno;
    if (!err)
        output->fd = -1;
    if (!err && output->temporary)
        err = output->fresh ? name_new(output) : rename_over(output);
    output->ns = clock_now() - begun;
    if (err && output->standard)
        return output_stdout_failed(fault, err);
    if (err)
        return refused(fault, err, &output->file, output->path);
    forget_temporary(output);
    return FAULT_NONE;
}

void output_close(struct output *output)
{
    util_close(&output->fd);
    if (output->temporary) {
        unlinkat(output->file.dir, output->temporary, 0);
        forget_temporary(output);
    }
    outfile_close(&output->file);
    free(output->path);
    reset_output(output, false);
}
