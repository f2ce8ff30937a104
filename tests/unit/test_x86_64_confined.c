/* A confined child has one way to make system calls: numbers of other kinds are refused. */
#include "check.h"
#include "host/confined.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { X32 = 0x40000000, I386_GETPID = 20 };

/* Of the x32 ABI, whose numbers have that bit. */
static void call_x32(void *ctx)
{
    const int error = syscall(X32 | SYS_getpid) < 0 ? errno : 0;

    (void)ctx;
    (void)send(CONFINED_CHANNEL, &error, sizeof error, MSG_NOSIGNAL);
}

/* Of 32-bit code, whose numbers mean other calls. */
static void call_i386(void *ctx)
{
    int result = 0;

    (void)ctx;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(I386_GETPID) : "memory");
    (void)send(CONFINED_CHANNEL, &result, sizeof result, MSG_NOSIGNAL);
}

static bool answer_of(void (*serve)(void *ctx), int *answer)
{
    const struct confined_work work = {.memory = 1 << 20, .out = -1, .serve = serve};
    struct confined child;

    if (!CHECK(confined_start(&child, &work) == 0))
        return false;
    const int rc = confined_receive(&child, answer, sizeof *answer, UINT64_MAX);
    confined_stop(&child);
    return rc == 0;
}

int main(void)
{
    int answer = 0;

    CHECK(answer_of(call_x32, &answer) && answer == EPERM);
    CHECK(!answer_of(call_i386, &answer));
    return check_result();
}
