/* A signal that another thread takes ends the wait of the first thread nevertheless. */
#include "check.h"
#include "run/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void *idle(void *unused)
{
    const struct timespec pause = {0, 1000000};

    while (!over)
        nanosleep(&pause, NULL);
    return unused;
}

static bool comes_about(bool (*condition)(void))
{
    const struct timespec pause = {0, 1000000};

    for (int i = 0; i < 60000 && !condition(); i++)
        nanosleep(&pause, NULL);
    return condition();
}

static bool is_seen(void)
{
    return *interrupt_flag() != 0;
}

static bool is_tick_pending(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && sigismember(&pending, SIGALRM) == 1;
}

int main(void)
{
    const struct timespec long_time = {60, 0};
    pthread_t other;
    sigset_t former;

    interrupt_init(130);
    if (!CHECK(pthread_create(&other, NULL, idle, NULL) == 0))
        return check_result();
    interrupt_block(&former);
    /* Here it could be between its last check of the flag and its wait. */
    CHECK(!is_seen() && kill(getpid(), SIGINT) == 0);
    CHECK(comes_about(is_seen) && comes_about(is_tick_pending));
    CHECK(ppoll(NULL, 0, &long_time, &former) == -1 && errno == EINTR);
    sigprocmask(SIG_SETMASK, &former, NULL);
    over = 1;
    CHECK(pthread_join(other, NULL) == 0);
    return check_result();
}
