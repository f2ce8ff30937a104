#include "cli/output.h"
#include "attach/util.h"
#include "cli/filename.h"
#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LINKS_MAX = 40, STREAM_BUFFER = 64 << 10, NUMBERS_MAX = 100000 };

static enum fault_code failed(struct fault *fault, int err, const char *path)
{
    return fault_set(fault, FAULT_OUTPUT, err, "write output", "%s", path);
}

/* What already exists and is no regular file (FIFO, device) is written as it is. */
static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Where a link leads that realpath(3) refuses because nothing is there yet; NULL: nowhere. */
static char *follow_link(const char *path)
{
    char text[PATH_MAX], *whole;
    ssize_t n = readlink(path, text, sizeof text - 1);
    const char *slash = strrchr(path, '/');

    if (n <= 0)
        return NULL;
    text[n] = '\0';
    if (text[0] == '/' || !slash)
        return strdup(text);
    return asprintf(&whole, "%.*s%s", (int)(slash + 1 - path), path, text) < 0 ? NULL : whole;
}

/* Through links to the file itself, so that a link stays a link. */
static char *final_name(const char *path)
{
    char *name = strdup(path), *real, *next;

    for (int links = 0; name && links < LINKS_MAX; links++) {
        real = realpath(name, NULL);
        next = real ? real : follow_link(name);
        if (!next)
            return name;
        free(name);
        name = next;
        if (real)
            return name;
    }
    return name;
}

/* In the file's own directory, so that it can be renamed; short, whatever the name is. */
static char *temporary_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name;

    if (asprintf(&name, "%.*s.jeattach.XXXXXX", slash ? (int)(slash + 1 - path) : 0, path) < 0)
        return NULL;
    return name;
}

static void forget_temporary(struct output *output)
{
    interrupt_finished();
    free(output->temporary);
    output->temporary = NULL;
}

static enum fault_code open_temporary(struct output *output, struct fault *fault)
{
    mode_t mask = umask(0);

    umask(mask);
    output->temporary = temporary_name(output->path);
    if (!output->temporary)
        return failed(fault, ENOMEM, output->path);
    output->fd = interrupt_make_unfinished(output->temporary);
    if (output->fd < 0) {
        int err = errno;
        forget_temporary(output);
        return failed(fault, err, output->path);
    }
    fchmod(output->fd, 0666 & ~mask);
    return FAULT_NONE;
}

/* What is never replaced is not looked for behind a link either. */
static char *name_of(const struct output *output, const char *path)
{
    return output->fresh ? strdup(path) : final_name(path);
}

static enum fault_code open_named(struct output *output, const char *path, struct fault *fault)
{
    if (!*path)
        return failed(fault, ENOENT, "''");
    output->path = name_of(output, path);
    if (!output->path)
        return failed(fault, ENOMEM, path);
    if (!is_special(path))
        return open_temporary(output, fault);
    /* A FIFO waits for its reader, through the ticks of the deadline, but not through Ctrl-C. */
    do
        output->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    while (output->fd < 0 && errno == EINTR && !*interrupt_flag());
    return output->fd < 0 ? failed(fault, errno, path) : FAULT_NONE;
}

static void begin(struct output *output, bool fresh)
{
    memset(output, 0, sizeof *output);
    output->fd = -1;
    output->fresh = fresh;
}

enum fault_code output_open(struct output *output, const char *path, struct fault *fault)
{
    begin(output, false);
    if (strcmp(path, "-") != 0)
        return open_named(output, path, fault);
    output->fd = dup(STDOUT_FILENO);
    output->path = strdup("stdout");
    return output->fd < 0 ? failed(fault, errno, "stdout") : FAULT_NONE;
}

enum fault_code output_open_new(struct output *output, const char *path, bool may_number,
                                struct fault *fault)
{
    struct stat st;

    if (strcmp(path, "-") == 0)
        return output_open(output, path, fault);
    begin(output, true);
    if (!may_number && !is_special(path) && lstat(path, &st) == 0)
        return failed(fault, EEXIST, path);
    return open_named(output, path, fault);
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

/* patient: also through a second Ctrl-C, until one ends the tool. */
static int write_all(int fd, const unsigned char *bytes, size_t len, bool patient)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && !(errno == EINTR && patient) && !output_may_retry(fd))
            return errno;
        if (n < 0)
            continue;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

/* stdio keeps no errno for later: this does. */
static ssize_t stream_write(void *cookie, const char *bytes, size_t len)
{
    struct output *output = cookie;

    if (!output->err)
        output->err = write_all(output->fd, (const unsigned char *)bytes, len, true);
    return output->err ? 0 : (ssize_t)len;
}

FILE *output_stream(struct output *output)
{
    static const cookie_io_functions_t functions = {.write = stream_write};
    FILE *stream = fopencookie(output, "w", functions);

    if (stream)
        setvbuf(stream, NULL, _IOFBF, STREAM_BUFFER);
    return stream;
}

/* 0 or an errno; EEXIST: the name is taken, and what has it is as it was. */
static int rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    /* Not every file system can do that; a link is not made over another file either. */
    if (link(from, to) != 0)
        return errno;
    unlink(from);
    return 0;
}

/* Under the first number that is free: what was recorded is not lost because a name is taken. */
static int name_new(struct output *output)
{
    char name[FILENAME_MAX_BYTES];
    int err = EEXIST;

    for (unsigned i = output->number; err == EEXIST && i < NUMBERS_MAX; i++) {
        err = filename_number(output->path, i, name, sizeof name)
                  ? rename_new(output->temporary, name)
                  : ENAMETOOLONG;
        output->number = i;
    }
    if (!err) {
        char *copy = strdup(name);
        if (!copy)
            return ENOMEM;
        free(output->path);
        output->path = copy;
    }
    return err;
}

static int give_name(struct output *output)
{
    if (!output->temporary)
        return 0;
    if (output->fresh)
        return name_new(output);
    return rename(output->temporary, output->path) ? errno : 0;
}

enum fault_code output_finish(struct output *output, const void *bytes, size_t len,
                              struct fault *fault)
{
    int err = output->err ? output->err : write_all(output->fd, bytes, len, true);

    if (!err && output->temporary && fsync(output->fd))
        err = errno;
    if (!err && close(output->fd))
        err = errno;
    if (!err)
        output->fd = -1;
    if (!err)
        err = give_name(output);
    if (err)
        return failed(fault, err, output->path);
    forget_temporary(output);
    return FAULT_NONE;
}

void output_close(struct output *output)
{
    util_close(&output->fd);
    if (output->temporary) {
        unlink(output->temporary);
        forget_temporary(output);
    }
    free(output->path);
    memset(output, 0, sizeof *output);
    output->fd = -1;
}

/* ---- stdout ---- */

static int stdout_err; /* of the first write that failed */

bool output_stdout_write(const char *bytes, size_t len)
{
    if (!stdout_err)
        stdout_err = write_all(STDOUT_FILENO, (const unsigned char *)bytes, len, false);
    errno = stdout_err;
    return !stdout_err;
}

static ssize_t stdout_cookie_write(void *cookie, const char *bytes, size_t len)
{
    (void)cookie;
    return output_stdout_write(bytes, len) ? (ssize_t)len : 0;
}

void output_stdout_init(void)
{
    static const cookie_io_functions_t functions = {.write = stdout_cookie_write};
    FILE *stream = fopencookie(NULL, "w", functions);

    if (!stream)
        return;
    setvbuf(stream, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, STREAM_BUFFER);
    stdout = stream;
}

enum fault_code output_stdout_check(struct fault *fault)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return FAULT_NONE;
    return failed(fault, stdout_err ? stdout_err : errno, "stdout");
}
