#include "run/interrupt.h"
#include "base/interruptions.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TEMPORARY_LETTERS = 6, TRIES_MAX = 100 };

static volatile sig_atomic_t signals_seen, seen_again, patience = 1;
static const char *volatile last_words;
static void (*volatile at_end)(void);
static int exit_status;
static const char *volatile unfinished;
static volatile sig_atomic_t unfinished_dir;
static volatile sig_atomic_t unfinished_comes;

/* May run in another thread than the first, which may be just creating the file. */
static void remove_unfinished(void)
{
    const struct timespec moment = {0, 1000000};

    for (int i = 0; i < 100 && unfinished_comes; i++)
        nanosleep(&moment, NULL);
    const char *path = unfinished;
    if (path)
        unlinkat(unfinished_dir, path, 0);
}

static void leave(void)
{
    const char *text = last_words;

    if (at_end)
        at_end();
    remove_unfinished();
    if (text && write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(exit_status); /* stderr is closed */
    _exit(exit_status);
}

/*
 * The signal was delivered to another thread because the first one blocks it and
 * may be about to wait; a SIGALRM, which it also blocks, ends that wait.
 */
static void wake_first_thread(void)
{
    pid_t first = getpid();
    int err = errno;

    if (syscall(SYS_gettid) != first)
        syscall(SYS_tgkill, first, first, SIGALRM);
    errno = err;
}

static void on_signal(int signo)
{
    (void)signo;
    if (++signals_seen > patience)
        leave();
    seen_again = signals_seen > 1;
    wake_first_thread();
}

static void on_tick(int signo)
{
    (void)signo;
}

void interrupt_init(int status)
{
    struct sigaction tick = {.sa_handler =
                                 on_tick}; /* the same as for the deadline, which may start later */
    sigset_t none;

    exit_status = status;
    interruptions_count_in(&signals_seen);
    interruptions_handle(on_signal);
    sigaction(SIGALRM, &tick, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

const volatile sig_atomic_t *interrupt_flag(void)
{
    return &signals_seen;
}

const volatile sig_atomic_t *interrupt_again_flag(void)
{
    return &seen_again;
}

void interrupt_patience(int signals, const char *farewell)
{
    last_words = farewell;
    patience = signals;
}

void interrupt_at_end(void (*restore)(void))
{
    at_end = restore;
}

void interrupt_finished(void)
{
    unfinished = NULL;
}

int interrupt_make_unfinished(int dir, char *template)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    char *end = template + strlen(template);
    unsigned char random[TEMPORARY_LETTERS];
    sigset_t former;
    int err, fd = -1;

    interrupt_block(&former);
    unfinished_comes = 1;
    for (int i = 0; i < TRIES_MAX; i++) {
        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
            break;
        for (size_t k = 0; k < sizeof random; k++)
            end[(ssize_t)k - TEMPORARY_LETTERS] = letters[random[k] % (sizeof letters - 1)];
        fd = openat(dir, template, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    err = errno;
    unfinished_dir = dir;
    if (fd >= 0)
        unfinished = template;
    unfinished_comes = 0;
    sigprocmask(SIG_SETMASK, &former, NULL);
    errno = err;
    return fd;
}

void interrupt_block(sigset_t *former)
{
    sigset_t set;

    sigemptyset(&set);
    interruptions_add(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_BLOCK, &set, former);
}

void interrupt_add_stops(sigset_t *set)
{
    sigaddset(set, SIGTSTP);
    sigaddset(set, SIGTTIN);
    sigaddset(set, SIGTTOU);
}
