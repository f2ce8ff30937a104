/* Calls that end by a timeout of their own. */
#include "blocking.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

static bool with_pipe(struct context *context)
{
    return pipe(context->fds) == 0;
}

static bool with_epoll(struct context *context)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (!with_pipe(context))
        return false;
    context->id = epoll_create1(EPOLL_CLOEXEC);
    return context->id >= 0 && epoll_ctl(context->id, EPOLL_CTL_ADD, context->fds[0], &event) == 0;
}

static sigset_t other_mask(void)
{
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGHUP);
    return mask;
}

static long make_epoll_wait(struct context *context)
{
    struct epoll_event event;

    return epoll_wait(context->id, &event, 1, (int)context->ms);
}

static long make_epoll_pwait(struct context *context)
{
    struct epoll_event event;
    sigset_t mask = other_mask();

    return epoll_pwait(context->id, &event, 1, (int)context->ms, &mask);
}

static long make_epoll_pwait2(struct context *context)
{
    struct epoll_event event;
    struct timespec span = blocking_span(context);
    sigset_t mask = other_mask();

    return epoll_pwait2(context->id, &event, 1, &span, &mask);
}

static long make_poll(struct context *context)
{
    struct pollfd fd = {context->fds[0], POLLIN, 0};

    return poll(&fd, 1, (int)context->ms);
}

static long make_ppoll(struct context *context)
{
    struct pollfd fd = {context->fds[0], POLLIN, 0};
    struct timespec span = blocking_span(context);
    sigset_t mask = other_mask();

    return ppoll(&fd, 1, &span, &mask);
}

static long make_select(struct context *context)
{
    struct timeval span = {context->ms / 1000, context->ms % 1000 * 1000};
    fd_set set;

    FD_ZERO(&set);
    FD_SET(context->fds[0], &set);
    return select(context->fds[0] + 1, &set, NULL, NULL, &span);
}

static long make_pselect(struct context *context)
{
    struct timespec span = blocking_span(context);
    sigset_t mask = other_mask();
    fd_set set;

    FD_ZERO(&set);
    FD_SET(context->fds[0], &set);
    return pselect(context->fds[0] + 1, &set, NULL, NULL, &span, &mask);
}

static long make_nanosleep(struct context *context)
{
    struct timespec span = blocking_span(context), left;

    return nanosleep(&span, &left);
}

static long make_clock_nanosleep(struct context *context)
{
    struct timespec span = blocking_span(context);

    return clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
}

static long make_clock_nanosleep_abs(struct context *context)
{
    struct timespec until = blocking_until(CLOCK_MONOTONIC, context);

    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static long make_futex_wait(struct context *context)
{
    struct timespec span = blocking_span(context);
    uint32_t word = 1;

    return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &span, NULL, 0);
}

static long make_futex_wait_bitset(struct context *context)
{
    struct timespec until = blocking_until(CLOCK_MONOTONIC, context);
    uint32_t word = 1;

    return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 1, &until, NULL, ~0u);
}

static long make_futex_waitv(struct context *context)
{
    struct timespec until = blocking_until(CLOCK_MONOTONIC, context);
    uint32_t word = 1;
    struct futex_waitv waiter = {
        .val = 1, .uaddr = (uintptr_t)&word, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG};

    return syscall(449 /* futex_waitv */, &waiter, 1, 0, &until, CLOCK_MONOTONIC);
}

/* pthread functions return their error. */
static long as_errno(int error)
{
    if (!error)
        return 0;
    errno = error;
    return -1;
}

static pthread_mutex_t pi_mutex, mutex = PTHREAD_MUTEX_INITIALIZER;

/* Locked for ever by the main thread, at its first use. */
static bool with_pi_mutex(struct context *context)
{
    pthread_mutexattr_t attr;

    (void)context;
    pthread_mutexattr_init(&attr);
    return pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT) == 0 &&
           pthread_mutex_init(&pi_mutex, &attr) == 0 && pthread_mutex_lock(&pi_mutex) == 0;
}

static long make_lock_pi(struct context *context)
{
    struct timespec until = blocking_until(CLOCK_REALTIME, context);

    return as_errno(pthread_mutex_timedlock(&pi_mutex, &until));
}

static long make_cond_timedwait(struct context *context)
{
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec until = blocking_until(CLOCK_REALTIME, context);

    pthread_mutex_lock(&mutex);
    int error = pthread_cond_timedwait(&condition, &mutex, &until);
    pthread_mutex_unlock(&mutex);
    return as_errno(error);
}

static long make_sem_timedwait(struct context *context)
{
    struct timespec until = blocking_until(CLOCK_REALTIME, context);
    sem_t semaphore;

    sem_init(&semaphore, 0, 0);
    return sem_timedwait(&semaphore, &until);
}

static bool with_timerfd(struct context *context)
{
    struct itimerspec spec = {{0, 0}, blocking_span(context)};

    context->fds[0] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    return context->fds[0] >= 0 && timerfd_settime(context->fds[0], 0, &spec, NULL) == 0;
}

static long make_read_timerfd(struct context *context)
{
    uint64_t expirations = 0;
    long got = read(context->fds[0], &expirations, sizeof(expirations));

    context->good = expirations == 1;
    return got;
}

static long make_sched_yield(struct context *context)
{
    struct timespec until = blocking_until(CLOCK_MONOTONIC, context), now;
    long failed = 0;

    do {
        failed |= sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < until.tv_sec ||
             (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec));
    return failed;
}

const struct call blocking_timed[] = {
    {"epoll_wait", 0, 0, ENDS_LATER, with_epoll, make_epoll_wait, NULL},
    {"epoll_pwait", 0, 0, ENDS_LATER, with_epoll, make_epoll_pwait, NULL},
    {"epoll_pwait2", 0, 0, ENDS_LATER, with_epoll, make_epoll_pwait2, NULL},
    {"poll", 0, 0, 0, with_pipe, make_poll, NULL},
    {"ppoll", 0, 0, 0, with_pipe, make_ppoll, NULL},
    {"select", 0, 0, 0, with_pipe, make_select, NULL},
    {"pselect", 0, 0, 0, with_pipe, make_pselect, NULL},
    {"nanosleep", 0, 0, 0, NULL, make_nanosleep, NULL},
    {"clock_nanosleep", 0, 0, 0, NULL, make_clock_nanosleep, NULL},
    {"clock_nanosleep_abs", 0, 0, 0, NULL, make_clock_nanosleep_abs, NULL},
    {"futex_wait", -1, ETIMEDOUT, 0, NULL, make_futex_wait, NULL},
    {"futex_wait_bitset", -1, ETIMEDOUT, 0, NULL, make_futex_wait_bitset, NULL},
    {"futex_waitv", -1, ETIMEDOUT, 0, NULL, make_futex_waitv, NULL},
    {"futex_lock_pi", -1, ETIMEDOUT, 0, with_pi_mutex, make_lock_pi, NULL},
    {"cond_timedwait", -1, ETIMEDOUT, 0, NULL, make_cond_timedwait, NULL},
    {"sem_timedwait", -1, ETIMEDOUT, 0, NULL, make_sem_timedwait, NULL},
    {"read_timerfd", 8, 0, 0, with_timerfd, make_read_timerfd, NULL},
    {"sched_yield", 0, 0, 0, NULL, make_sched_yield, NULL},
    {NULL},
};
