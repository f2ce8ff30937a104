/* Waiting for signals. The handler counts; a call that returns without it was ended by something
   else. */
#include "blocking.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static bool block(struct context *context)
{
    sigset_t set;

    (void)context;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 4);
    return pthread_sigmask(SIG_BLOCK, &set, NULL) == 0;
}

static sigset_t only(int signo)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signo);
    return set;
}

static long make_pause(struct context *context)
{
    int result = pause();

    context->good = blocking_handled == 1;
    return result;
}

static long make_sigsuspend(struct context *context)
{
    sigset_t set = only(SIGHUP);
    int result = sigsuspend(&set);

    context->good = blocking_handled == 1;
    return result;
}

static void end_by_signal(struct context *context)
{
    pthread_kill(context->thread, SIGUSR1);
}

static long make_sigwaitinfo(struct context *context)
{
    sigset_t set = only(SIGRTMIN + 4);
    siginfo_t info = {0};
    int got = sigwaitinfo(&set, &info);

    context->good = info.si_value.sival_int == 4711;
    return got > 0 ? 0 : -1;
}

static void end_by_queue(struct context *context)
{
    pthread_sigqueue(context->thread, SIGRTMIN + 4, (union sigval){.sival_int = 4711});
}

static long make_sigtimedwait(struct context *context)
{
    sigset_t set = only(SIGRTMIN + 4);
    struct timespec span = blocking_span(context);

    return sigtimedwait(&set, NULL, &span);
}

const struct call blocking_signals[] = {
    {"pause", -1, EINTR, 0, NULL, make_pause, end_by_signal},
    {"sigsuspend", -1, EINTR, 0, NULL, make_sigsuspend, end_by_signal},
    {"sigwaitinfo", 0, 0, 0, block, make_sigwaitinfo, end_by_queue},
    {"sigtimedwait", -1, EAGAIN, ENDS_LATER, block, make_sigtimedwait, NULL},
    {NULL},
};
