#include "guest.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *format(const char *text, ...)
{
    char *line = NULL;
    va_list args;

    va_start(args, text);
    int len = vasprintf(&line, text, args);
    va_end(args);
    return len < 0 ? "" : line; /* never freed: a machine lives for a minute */
}

const char *text_of(long number)
{
    return format("%ld", number);
}

const char *read_file(const char *path)
{
    static char texts[8][16384];
    static unsigned turn;
    char *text = texts[turn++ % 8];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t n;

    while (fd >= 0 && used < sizeof(texts[0]) - 1 &&
           (n = read(fd, text + used, sizeof(texts[0]) - 1 - used)) > 0)
        used += (size_t)n;
    if (fd >= 0)
        close(fd);
    text[used] = '\0';
    return text;
}

bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return good;
}

const char *status_field(pid_t pid, const char *name)
{
    const char *text = read_file(format("/proc/%d/status", (int)pid));
    const char *line = strstr(text, format("\n%s:\t", name));

    if (!line)
        return "";
    line += strlen(name) + 3;
    return format("%.*s", (int)strcspn(line, "\n"), line);
}

uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void pause_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

const char *make_directory(void)
{
    static unsigned count;
    const char *path = format("/tmp/%u", count++);

    mkdir(path, 0777);
    chmod(path, 0777);
    return path;
}

const volatile uint64_t *map_numbers(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    void *area = MAP_FAILED;

    if (fd >= 0 && fchmod(fd, 0666) == 0 && ftruncate(fd, 4096) == 0)
        area = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return area == MAP_FAILED ? NULL : area;
}
