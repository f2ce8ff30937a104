/*
 * floor.so, preloaded: what a call of mallctl costs inside the process, where no tool can be
 * faster. A thread of its own listens on the unix socket that JEATTACH_FLOOR names and answers
 * each line with "NANOSECONDS RESULT":
 *
 *   dump PATH    prof.dump to PATH
 *   toggle       prof.active set to what it was not
 */
#include "slots.h"

#include <err.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

extern int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen)
    __attribute__((weak));

struct answer {
    uint64_t ns;
    int result;
};

static struct answer ctl_write(const char *name, void *value, size_t size)
{
    uint64_t start = clock_ns();
    int result = mallctl(name, NULL, NULL, value, size);

    return (struct answer){clock_ns() - start, result};
}

static struct answer toggle(void)
{
    bool active = false;
    size_t size = sizeof(active);

    mallctl("prof.active", &active, &size, NULL, 0);
    active = !active;
    return ctl_write("prof.active", &active, sizeof(active));
}

static struct answer line_obey(char *line)
{
    char *path = line + strlen("dump ");

    if (strcmp(line, "toggle") == 0)
        return toggle();
    if (strncmp(line, "dump ", strlen("dump ")) == 0)
        return ctl_write("prof.dump", &path, sizeof(path));
    return (struct answer){0, -1};
}

/* One line a connection. */
static void peer_serve(int peer)
{
    char line[512];
    ssize_t length = read(peer, line, sizeof(line) - 1);
    struct answer answer;

    if (length <= 0 || line[length - 1] != '\n')
        return;
    line[length - 1] = '\0';
    answer = line_obey(line);
    dprintf(peer, "%llu %d\n", (unsigned long long)answer.ns, answer.result);
}

static void *floor_serve(void *arg)
{
    int listener = *(int *)arg;

    for (;;) {
        int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (peer < 0)
            return NULL;
        peer_serve(peer);
        close(peer);
    }
}

static int floor_listen(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof(address.sun_path))
        errx(2, "path too long: %s", path);
    strcpy(address.sun_path, path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 4) < 0)
        err(1, "%s", path);
    return fd;
}

static __attribute__((constructor)) void floor_start(void)
{
    static int listener;
    const char *path = getenv("JEATTACH_FLOOR");
    pthread_t thread;

    if (path == NULL)
        return;
    if (mallctl == NULL)
        errx(1, "floor.so: no jemalloc in this process");
    listener = floor_listen(path);
    if (pthread_create(&thread, NULL, floor_serve, &listener) != 0)
        errx(1, "floor.so: no thread");
    unsetenv("JEATTACH_FLOOR");
}
