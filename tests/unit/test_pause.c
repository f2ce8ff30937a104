/* Waiting: until a moment, a signal, or the end of a process; whatever the wall clock does. */
#include "check.h"
#include "run/pause.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile sig_atomic_t flag;
static unsigned ticks, wall_clock_reads;

/* Replaces libc's: the wall clock jumps back and forth, and its readers are counted. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    long rc = syscall(SYS_clock_gettime, clock, now);

    if (clock == CLOCK_REALTIME)
        now->tv_sec += ++wall_clock_reads % 2 ? 1000000 : -1000000;
    return (int)rc;
}

time_t time(time_t *now)
{
    wall_clock_reads++;
    return now ? (*now = 0) : 0;
}

int gettimeofday(struct timeval *now, void *zone)
{
    (void)zone;
    wall_clock_reads++;
    *now = (struct timeval){0, 0};
    return 0;
}

static void on_signal(int signo)
{
    (void)signo;
    flag = 1;
}

/* The third signal ends the pause. */
static void count_tick(void *ctx)
{
    (void)ctx;
    if (++ticks == 3)
        flag = 1;
}

static uint64_t in_ms(unsigned ms)
{
    return clock_now() + ms * 1000000ull;
}

static void test_over(void)
{
    struct pause pause = {.until = in_ms(60)};

    CHECK(pause_until(&pause) == PAUSE_OVER);
    CHECK(clock_now() >= pause.until);
    /* A pause until a moment that has passed does not wait, and does not tick. */
    pause.tick = count_tick;
    ticks = 0;
    CHECK(pause_until(&pause) == PAUSE_OVER);
    CHECK(ticks == 0);
    CHECK(wall_clock_reads == 0);
}

static void test_ticks(void)
{
    struct pause pause = {
        .until = UINT64_MAX, .interrupted = &flag, .tick = count_tick, .tick_ns = 1000000};

    ticks = 0;
    CHECK(pause_until(&pause) == PAUSE_INTERRUPTED);
    CHECK(ticks == 3);
    flag = 0;
    /* The moment is kept however often the wait is interrupted. */
    pause.until = in_ms(30);
    pause.interrupted = NULL;
    CHECK(pause_until(&pause) == PAUSE_OVER);
    CHECK(clock_now() >= pause.until);
    flag = 0;
    CHECK(wall_clock_reads == 0);
}

static void test_interrupted_before(void)
{
    struct pause pause = {.until = UINT64_MAX, .interrupted = &flag};

    flag = 1;
    CHECK(pause_until(&pause) == PAUSE_INTERRUPTED);
    flag = 0;
}

/* A child that sends signals until it is ended; at any moment of the pause, also just before the
   wait. */
static pid_t signal_parent(int signo)
{
    pid_t parent = getpid(), child = fork();

    if (child == 0) {
        kill(parent, signo);
        _exit(0);
    }
    return child;
}

static void test_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct pause pause = {.until = UINT64_MAX, .interrupted = &flag};
    sigset_t before, after;

    memset(&before, 0, sizeof before); /* the kernel writes a part of it */
    memset(&after, 0, sizeof after);
    sigprocmask(SIG_BLOCK, NULL, &before);
    for (unsigned i = 0; i < 60; i++) {
        flag = 0;
        pid_t child = signal_parent(signals[i % 3]);
        CHECK(pause_until(&pause) ==
              PAUSE_INTERRUPTED); /* a missed signal would mean an endless wait */
        CHECK(waitpid(child, NULL, 0) == child);
    }
    sigprocmask(SIG_BLOCK, NULL, &after);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    flag = 0;
}

static void raise_in_tick(void *ctx)
{
    (void)ctx;
    raise(SIGINT);
}

/* Between the check of the flag and the wait: it must not wait any more. */
static void test_signal_just_before(void)
{
    struct pause pause = {.until = UINT64_MAX,
                          .interrupted = &flag,
                          .tick = raise_in_tick,
                          .tick_ns = UINT64_MAX / 2};

    CHECK(pause_until(&pause) == PAUSE_INTERRUPTED);
    flag = 0;
}

static bool open_target(struct target *target, struct procfs *proc, pid_t pid)
{
    struct fault fault;

    return procfs_open(proc, "/proc") == 0 && target_open(target, proc, pid, &fault) == FAULT_NONE;
}

static void test_end_of_target(bool with_pidfd)
{
    struct procfs proc;
    struct target target;
    struct pause pause = {.until = UINT64_MAX, .target = &target, .tick_ns = 10000000};
    pid_t child = fork(), killer;

    if (child == 0) {
        for (;;)
            sleep(100);
    }
    if (CHECK(open_target(&target, &proc, child))) {
        if (!with_pidfd)
            target_close(&target);
        pause.until = in_ms(20);
        CHECK(pause_until(&pause) == PAUSE_OVER); /* it is alive */
        killer = fork();
        if (killer == 0) {
            usleep(20000);
            kill(child, SIGKILL);
            _exit(0);
        }
        pause.until = UINT64_MAX;
        CHECK(pause_until(&pause) == PAUSE_ENDED);
        CHECK(waitpid(killer, NULL, 0) == killer);
        target_close(&target);
        procfs_close(&proc);
    }
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(wall_clock_reads == 0);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    alarm(40); /* an endless wait is ended */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    test_over();
    test_ticks();
    test_interrupted_before();
    test_signals();
    test_signal_just_before();
    test_end_of_target(true);
    test_end_of_target(false);
    return check_result();
}
