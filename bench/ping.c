/*
 * ping SOCKET FILE: sends PING to a redis-server on a unix socket some thousand times a second and
 * records the longest round trip in slot 0 of FILE.
 */
#include "slots.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { PAUSE_NS = 200000 };

static const char request[] = "PING\r\n";
static const char answer[] = "+PONG\r\n";

static int redis_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof(address.sun_path))
        errx(2, "path too long: %s", path);
    strcpy(address.sun_path, path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        err(1, "%s", path);
    return fd;
}

static void redis_ping(int fd)
{
    char reply[sizeof(answer)] = "";
    size_t have = 0;

    if (write(fd, request, sizeof(request) - 1) != (ssize_t)sizeof(request) - 1)
        err(1, "write");
    while (have < sizeof(answer) - 1) {
        ssize_t n = read(fd, reply + have, sizeof(answer) - 1 - have);

        if (n <= 0)
            err(1, "no answer to PING");
        have += (size_t)n;
    }
    if (memcmp(reply, answer, have) != 0)
        errx(1, "PING was answered by: %s", reply);
}

int main(int argc, char **argv)
{
    const struct timespec pause = {0, PAUSE_NS};
    struct slot *slot;
    int fd;

    if (argc != 3)
        errx(2, "usage: ping SOCKET FILE");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1);
    slot = slots_map(argv[2], 1);
    if (slot == NULL)
        err(1, "%s", argv[2]);
    fd = redis_connect(argv[1]);
    atomic_store(&slot->tid, (uint64_t)gettid());
    for (;;) {
        uint64_t start = clock_ns();

        redis_ping(fd);
        slot_record(slot, clock_ns() - start);
        nanosleep(&pause, NULL);
    }
}
