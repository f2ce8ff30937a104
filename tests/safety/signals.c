/*
 * signals MODE [lose]: a thread that receives signals and counts them.
 *
 * Prints `tid N`; at a line on stdin it stops and prints `result SENT GOT FAULT`. FAULT is `-` or
 * the first thing that was wrong. With `lose` one signal is counted as sent and never sent.
 */
#include "safety.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOST_AT   20
#define PERIOD_NS 1000000
#define PATIENCE  2000000 /* microseconds after which a signal counts as lost */

enum { RT = 40, ALTSTACK = 65536 };

static _Atomic uint64_t sent, got, rounds;
static _Atomic bool stopping, waited; /* waited: no more signals are expected */
static _Atomic(const char *) fault = "-";
static pid_t worker_tid;
static pthread_t worker_thread;
static unsigned char altstack[ALTSTACK];
static bool lose;

static void complain(const char *what)
{
    const char *none = "-";

    if (fault == none || !strcmp(fault, "-"))
        fault = what;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool is_lost(void)
{
    return lose && sent == LOST_AT;
}

/* ---- handlers ---- */

static void count(int signo)
{
    (void)signo;
    atomic_fetch_add(&got, 1);
}

static bool on_altstack(const void *local)
{
    uintptr_t at = (uintptr_t)local, base = (uintptr_t)altstack;

    return at >= base && at < base + ALTSTACK;
}

static void count_expirations(int signo, siginfo_t *info, void *unused)
{
    int local = 0;

    (void)signo;
    (void)unused;
    if (!on_altstack(&local))
        complain("not-on-alternate-stack");
    atomic_fetch_add(&got, 1u + (unsigned)info->si_overrun);
}

static void check_sequence(const siginfo_t *info)
{
    if ((uint64_t)info->si_value.sival_int != got + 1)
        complain("out-of-sequence");
    got = (uint64_t)info->si_value.sival_int;
}

static void take_next(int signo, siginfo_t *info, void *unused)
{
    int local = 0;

    (void)signo;
    (void)unused;
    if (!on_altstack(&local))
        complain("not-on-alternate-stack");
    check_sequence(info);
}

static void reap(int signo)
{
    (void)signo;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        atomic_fetch_add(&got, 1);
}

static void handle(int signo, void (*simple)(int), void (*full)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_flags = SA_ONSTACK};

    if (full) {
        action.sa_sigaction = full;
        action.sa_flags |= SA_SIGINFO;
    } else {
        action.sa_handler = simple;
    }
    sigfillset(&action.sa_mask);
    sigaction(signo, &action, NULL);
}

/* ---- the thread ---- */

static void nap(void)
{
    struct timespec span = {0, 3000000};

    nanosleep(&span, NULL);
    rounds++;
}

static void wait_pause(void)
{
    uint64_t before = got;

    if (pause() != -1 || errno != EINTR)
        complain("pause-returned");
    if (got == before && !stopping)
        complain("ended-without-a-signal");
    rounds++;
}

static void wait_queue(void)
{
    siginfo_t info;
    sigset_t set;
    struct timespec span = {0, 200000000};

    sigemptyset(&set);
    sigaddset(&set, RT);
    if (sigtimedwait(&set, &info, &span) == RT)
        check_sequence(&info);
    else if (errno == EINTR)
        complain("eintr");
}

static void suspend_once(const sigset_t *mask)
{
    sigsuspend(mask);
}

static void ppoll_once(const sigset_t *mask)
{
    if (ppoll(NULL, 0, NULL, mask) != -1)
        complain("ppoll-returned");
}

static void pselect_once(const sigset_t *mask)
{
    if (pselect(0, NULL, NULL, NULL, NULL, mask) != -1)
        complain("pselect-returned");
}

static void epoll_once(const sigset_t *mask)
{
    static int fd = -1;
    struct epoll_event event;

    if (fd < 0)
        fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_pwait(fd, &event, 1, -1, mask) != -1)
        complain("epoll-pwait-returned");
}

/* SIGUSR1 is blocked except during the call. */
static void wait_masked(void (*once)(const sigset_t *))
{
    uint64_t before = got;
    sigset_t mask, now;

    sigemptyset(&mask);
    once(&mask);
    if (errno != EINTR)
        complain("not-eintr");
    if (got != before + 1)
        complain("not-exactly-one-signal");
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    if (!sigismember(&now, SIGUSR1))
        complain("mask-not-restored");
    rounds++;
}

static void wait_suspend(void)
{
    wait_masked(suspend_once);
}

static void wait_ppoll(void)
{
    wait_masked(ppoll_once);
}

static void wait_pselect(void)
{
    wait_masked(pselect_once);
}

static void wait_epoll(void)
{
    wait_masked(epoll_once);
}

static void spin(void)
{
    for (volatile int i = 0; i < 100000; i++)
        ;
    rounds++;
}

/* ---- the sender ---- */

static char state_of_worker(void)
{
    char path[64], text[512] = "";

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)worker_tid);
    FILE *file = fopen(path, "r");
    size_t len = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        fclose(file);
    const char *end = len ? strrchr(text, ')') : NULL;
    return end ? end[2] : '?';
}

static void await_state(char state, uint64_t patience_us)
{
    uint64_t end = now_ns() + patience_us * 1000;

    while (state_of_worker() != state && now_ns() < end && !stopping)
        ;
}

/* Sleeps, is then most often stopped by a tracer, then gets the signal: one round each. */
static void send_during_hold(void)
{
    uint64_t before = rounds, end = now_ns() + PATIENCE * 1000ull;

    await_state('S', PATIENCE);
    await_state('t', 4000);
    if (stopping)
        return;
    atomic_fetch_add(&sent, 1);
    if (!is_lost())
        pthread_kill(worker_thread, SIGUSR1);
    while (rounds == before && now_ns() < end)
        usleep(20);
    if (rounds == before)
        complain("lost");
}

static void send_sequence(void)
{
    int number = (int)atomic_fetch_add(&sent, 1) + 1;

    while (!is_lost() &&
           pthread_sigqueue(worker_thread, RT, (union sigval){.sival_int = number}) == EAGAIN)
        usleep(100);
    usleep(30);
}

static void send_child(void)
{
    atomic_fetch_add(&sent, 1);
    pid_t child = is_lost() ? 0 : fork();
    if (child == 0 && !is_lost())
        _exit(0);
    usleep(2000);
}

/* A few for a thread that takes none of them, and no more. */
static void send_pending(void)
{
    if (sent < 6)
        send_sequence();
    if (lose && sent == 6)
        sent = 7;
    usleep(1000);
}

static timer_t timer;
static uint64_t timer_begun, period_ns = PERIOD_NS;

static void start_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = RT};
    struct itimerspec every = {{0, (long)period_ns}, {0, (long)period_ns}};

    event._sigev_un._tid = worker_tid;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_begun = now_ns();
    timer_settime(timer, 0, &every, NULL);
}

/* Most stops of the thread begin with the delivery of a signal. */
static void start_fast_timer(void)
{
    period_ns = PERIOD_NS / 20;
    start_timer();
}

static void start_itimer(void)
{
    struct itimerval every = {{0, PERIOD_NS / 1000}, {0, PERIOD_NS / 1000}};

    timer_begun = now_ns();
    setitimer(ITIMER_REAL, &every, NULL);
}

static void count_time(void)
{
    usleep(20000);
    sent = (now_ns() - timer_begun) / period_ns * (lose ? 2 : 1);
}

/*
 * A thread that waits for a CPU is behind its timer, and signals pending when a timer is disarmed
 * are dropped: the two counts are taken while it runs, at a moment when they agree. Earlier losses
 * stay visible.
 */
static void take_counts(bool exact, uint64_t *expired, uint64_t *taken)
{
    uint64_t end = now_ns() + (lose ? 300000000 : 2000000000);

    do {
        *taken = got;
        *expired = (now_ns() - timer_begun) / period_ns * (lose ? 2 : 1);
        if (*taken + 1 >= *expired)
            return;
        usleep(200);
    } while (exact && now_ns() < end);
}

/* ---- modes ---- */

struct mode {
    const char *name;
    int signo;
    void (*simple)(int);
    void (*full)(int, siginfo_t *, void *);
    int blocked; /* in the thread; -1: all */
    void (*wait)(void);
    void (*start)(void);
    void (*send)(void);
};

static const struct mode modes[] = {
    {"timer", RT, NULL, count_expirations, 0, nap, start_timer, count_time},
    {"timer_spin", RT, NULL, count_expirations, 0, spin, start_timer, count_time},
    {"timer_fast", RT, NULL, count_expirations, 0, nap, start_fast_timer, count_time},
    {"itimer", SIGALRM, count, NULL, 0, nap, start_itimer, count_time},
    {"queue", RT, NULL, take_next, 0, nap, NULL, send_sequence},
    {"queue_spin", RT, NULL, take_next, 0, spin, NULL, send_sequence},
    {"queue_wait", RT, NULL, take_next, -1, wait_queue, NULL, send_sequence},
    {"pause", SIGUSR1, count, NULL, 0, wait_pause, NULL, send_during_hold},
    {"sigsuspend", SIGUSR1, count, NULL, SIGUSR1, wait_suspend, NULL, send_during_hold},
    {"ppoll", SIGUSR1, count, NULL, SIGUSR1, wait_ppoll, NULL, send_during_hold},
    {"pselect", SIGUSR1, count, NULL, SIGUSR1, wait_pselect, NULL, send_during_hold},
    {"epoll_pwait", SIGUSR1, count, NULL, SIGUSR1, wait_epoll, NULL, send_during_hold},
    {"all_blocked", RT, NULL, take_next, -1, nap, NULL, send_pending},
    {"all_blocked_spin", RT, NULL, take_next, -1, spin, NULL, send_pending},
    {"sigchld", SIGCHLD, reap, NULL, 0, nap, NULL, send_child},
};

static void set_mask(int blocked)
{
    sigset_t mask;

    sigemptyset(&mask);
    if (blocked < 0)
        sigfillset(&mask);
    else if (blocked)
        sigaddset(&mask, blocked);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void check_altstack(void)
{
    stack_t now;

    sigaltstack(NULL, &now);
    if (now.ss_sp != altstack || now.ss_size != ALTSTACK || now.ss_flags != 0)
        complain("alternate-stack-changed");
}

/* All signals still queued belong to the sequence. */
static void take_pending(void)
{
    struct timespec none = {0, 0};
    siginfo_t info;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, RT);
    while (sigtimedwait(&set, &info, &none) == RT)
        check_sequence(&info);
}

static void *worker(void *data)
{
    const struct mode *mode = data;
    stack_t stack = {.ss_sp = altstack, .ss_size = ALTSTACK};

    sigaltstack(&stack, NULL);
    set_mask(mode->blocked);
    worker_tid = gettid();
    /* The last child ends after the sender: its signal needs a thread that takes it. */
    while (!stopping || (mode->send == send_child && got < sent && !waited))
        mode->wait();
    if (mode->blocked < 0) {
        if (!strncmp(mode->name, "all_", 4) && got != 0)
            complain("delivered-though-blocked");
        take_pending();
    }
    check_altstack();
    return NULL;
}

static void *sender(void *data)
{
    const struct mode *mode = data;

    while (!worker_tid)
        usleep(100);
    if (mode->start)
        mode->start();
    while (!stopping)
        mode->send();
    return NULL;
}

/* The timers are read and stopped first; then signals on the way have time to arrive. */
static void finish(const struct mode *mode, pthread_t sending)
{
    struct itimerspec none = {{0, 0}, {0, 0}};
    struct itimerval none_real = {{0, 0}, {0, 0}};

    bool counted = mode->send == count_time;
    uint64_t expired = 0, taken = 0;

    if (counted)
        take_counts(mode->full == count_expirations, &expired, &taken);
    if (mode->full == count_expirations)
        timer_settime(timer, 0, &none, NULL);
    if (mode->start == start_itimer)
        setitimer(ITIMER_REAL, &none_real, NULL);
    stopping = true;
    usleep(50000);
    pthread_join(sending, NULL);
    for (int i = 0; i < (lose ? 300 : 2000) && !counted && got < sent; i++)
        usleep(1000); /* the last signal waits for a CPU, like its thread */
    waited = true;
    /* One more wakes a waiting thread; the last of the others may have ended it already. */
    uint64_t without = got;
    if (mode->signo == SIGUSR1)
        pthread_kill(worker_thread, SIGUSR1);
    pthread_join(worker_thread, NULL);
    if (counted) {
        sent = expired;
        got = taken;
    }
    if (mode->signo == SIGUSR1)
        got = without;
}

static const struct mode *find(const char *name)
{
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        if (!strcmp(modes[i].name, name))
            return &modes[i];
    return NULL;
}

static int run(const struct mode *mode)
{
    pthread_t sending;
    char line[16];

    handle(mode->signo, mode->simple, mode->full);
    set_mask(-1);
    if (pthread_create(&worker_thread, NULL, worker, (void *)(uintptr_t)mode) != 0 ||
        pthread_create(&sending, NULL, sender, (void *)(uintptr_t)mode) != 0)
        return 1;
    while (!worker_tid)
        usleep(100);
    printf("tid %d\n", (int)worker_tid);
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        return 1;
    finish(mode, sending);
    printf("result %ju %ju %s\n", (uintmax_t)sent, (uintmax_t)got, fault);
    return 0;
}

int main(int argc, char **argv)
{
    const struct mode *mode = argc > 1 ? find(argv[1]) : NULL;

    safety_begin();
    lose = argc > 2;
    if (mode)
        return run(mode);
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        puts(modes[i].name);
    return 0;
}
