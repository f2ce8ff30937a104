#include "cli/output/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS = 80, COLUMNS_MIN = 20 };

static bool is_shown(const struct options *options)
{
    return !options->quiet && isatty(STDERR_FILENO);
}

void progress_show(const struct options *options, const char *fmt, ...)
{
    struct winsize size;
    char line[256];
    size_t width = COLUMNS; /* of a line that does not wrap: only one terminal line is removed */
    va_list ap;

    if (!is_shown(options))
        return;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= COLUMNS_MIN)
        width = size.ws_col;
    va_start(ap, fmt);
    vsnprintf(line, width < sizeof line ? width : sizeof line, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
}

void progress_clear(const struct options *options)
{
    if (is_shown(options))
        fputs("\r\033[K", stderr);
}
