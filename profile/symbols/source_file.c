#include "profile/symbols/source_file.h"
#include "base/text.h"
#include "elf/rootfile.h"
#include "profile/symbols/module_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_SHOWN = 400 };

static int open_in_target(const struct target *target, const char *path)
{
    AUTO_CLOSE int root = root_open(target);

    return root < 0 ? root : root_open_file(root, path, INROOT_FOLLOW);
}

static int open_source(const struct symbols_options *options, const char *path)
{
    if (*path != '/')
        return -ENOENT; /* relative to a directory of whoever built it */
    if (!options->root && options->target)
        return open_in_target(options->target, path);
    return module_files_open_path(options, path);
}

/*
 * Whoever wrote the binary chose the path, and may have named /etc/shadow. A file that everybody
 * may read is no secret. One's own files are shown to their owner, but not to root, who owns the
 * secrets of the host.
 */
static bool may_show(const struct stat *st)
{
    return st->st_mode & S_IROTH || (geteuid() != 0 && st->st_uid == geteuid());
}

/* Reads at most size bytes. Returns the number, or -errno. */
static ssize_t read_whole(int fd, char *text, size_t size)
{
    size_t len = 0;
    ssize_t n;

    do {
        n = pread(fd, text + len, size - len, (off_t)len);
        if (n > 0)
            len += (size_t)n;
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 ? -errno : (ssize_t)len;
}

int source_file_split(struct source_file *source, char *text, size_t len)
{
    size_t count = 1;

    source->text = text;
    source->len = len;
    for (size_t i = 0; i < len; i++)
        count += text[i] == '\n';
    source->lines = reallocarray(NULL, count + 1, sizeof *source->lines);
    if (!source->lines)
        return ENOMEM;
    for (size_t at = 0; at < len; source->line_count++) {
        const char *end = memchr(text + at, '\n', len - at);
        source->lines[source->line_count] = at;
        at = end ? (size_t)(end - text) + 1 : len;
    }
    source->lines[source->line_count] = len;
    return 0;
}

int source_file_read(struct source_file *source, const struct symbols_options *options,
                     const char *path)
{
    AUTO_CLOSE int fd = open_source(options, path);
    AUTO_FREE char *text = NULL;
    struct stat st;
    ssize_t len;

    memset(source, 0, sizeof *source);
    if (fd < 0)
        return -fd;
    if (fstat(fd, &st))
        return errno;
    if (!may_show(&st))
        return EPERM;
    if (st.st_size > SOURCE_SIZE_MAX)
        return EFBIG;
    text = malloc((size_t)st.st_size + 1);
    if (!text)
        return ENOMEM;
    len = read_whole(fd, text, (size_t)st.st_size);
    return len < 0 ? (int)-len : source_file_split(source, steal_ptr(&text), (size_t)len);
}

void source_file_free(struct source_file *source)
{
    free(source->text);
    free(source->lines);
    memset(source, 0, sizeof *source);
}

void source_file_write_line(const struct source_file *source, size_t number, FILE *out)
{
    const char *text = source->text + source->lines[number - 1];
    size_t len = source->lines[number] - source->lines[number - 1];

    while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    text_write_lines(out, text, len < LINE_SHOWN ? len : LINE_SHOWN);
}
