/*
 * A process with a profile, which then falls into a state in which it can make no call.
 *
 *   sick STATE
 *
 * STATE:
 *   well        none: its threads wait
 *   locked      a thread has taken every lock of jemalloc, as at a fork, and never releases them;
 *               the others wait for one
 *   vfork       every thread waits for the child of its vfork(2), uninterruptibly
 *   strict      every thread is in strict seccomp mode: only read, write, exit and sigreturn
 *   dispatch    the system calls of every thread are dispatched to it (SIGSYS, which ends it)
 *   leaderless  the first thread has ended
 *
 * Samples while it builds up, then switches prof.active off: from "ready" on the profile does not
 * change. After a line on stdin it falls into the state; each of its threads says "sick" then. Ends
 * at the end of stdin, if it still can, and with its parent. Exit code 77: the kernel does not
 * support the state.
 */
#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/prctl.h since Linux 5.11 */
enum { SET_DISPATCH = 59, DISPATCH_ON = 1, SELECTOR_ALLOW = 0, SELECTOR_BLOCK = 1 };

enum { THREADS = 3, BLOCKS = 400, BLOCK = 3000 };

static const char *state;
static void *kept[THREADS + 1][BLOCKS];
static sem_t built, fall;
static atomic_bool locked;

static void say(const char *line)
{
    if (write(STDOUT_FILENO, line, strlen(line)) < 0)
        _exit(1);
}

static void skip(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(77);
}

/* ---- the states ---- */

static void (*take_all_locks)(void);

/*
 * jemalloc registers its fork handlers here instead of in the C library; this process does not
 * fork. The first that registers some is jemalloc.
 */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);
__attribute__((visibility("default"))) int __register_atfork(void (*prepare)(void),
                                                             void (*parent)(void),
                                                             void (*child)(void), void *dso)
{
    (void)parent;
    (void)child;
    (void)dso;
    if (prepare && !take_all_locks)
        take_all_locks = prepare;
    return 0;
}

static void be_locked(int number)
{
    if (number == 0) {
        if (!take_all_locks)
            skip("no fork handlers of jemalloc");
        take_all_locks();
        locked = true;
        say("sick\n");
        return;
    }
    while (!locked)
        usleep(1000);
    say("sick\n");
    kept[number][0] = malloc(1 << 20); /* never returns */
}

static void be_in_vfork(int number)
{
    (void)number;
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        say("sick\n");
        for (;;)
            syscall(SYS_pause);
    }
}

static void be_strict(int number)
{
    (void)number;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        skip("strict seccomp");
    say("sick\n");
}

static __thread volatile char selector = SELECTOR_ALLOW;

static void be_dispatched(int number)
{
    (void)number;
    if (prctl(SET_DISPATCH, DISPATCH_ON, 0, 0, &selector) != 0)
        skip("syscall user dispatch");
    say("sick\n");
    selector = SELECTOR_BLOCK;
    for (;;)
        __asm__ volatile("");
}

static void be_leaderless(int number)
{
    say("sick\n");
    if (number == 0)
        pthread_exit(NULL);
}

static void be_well(int number)
{
    (void)number;
    say("sick\n");
}

static const struct {
    const char *name;
    void (*be)(int number);
} states[] = {
    {"well", be_well},     {"locked", be_locked},       {"vfork", be_in_vfork},
    {"strict", be_strict}, {"dispatch", be_dispatched}, {"leaderless", be_leaderless},
};

static void fall_sick(int number)
{
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strcmp(states[i].name, state) == 0)
            states[i].be(number);
}

/* ---- the profile ---- */

__attribute__((noinline)) static void *allocate_small(int i)
{
    return malloc((size_t)(i % 7 + 1) * BLOCK);
}

__attribute__((noinline)) static void *allocate_zeroed(int i)
{
    return calloc((size_t)(i % 3 + 1), (size_t)5 * BLOCK);
}

static void build(int number)
{
    for (int i = 0; i < BLOCKS; i++)
        kept[number][i] = i % 2 ? allocate_small(i) : allocate_zeroed(i);
    for (int i = 0; i < BLOCKS; i += 5) {
        free(kept[number][i]);
        kept[number][i] = NULL;
    }
}

static void switch_off(void)
{
    bool active = false;

    if (mallctl("prof.active", NULL, NULL, &active, sizeof active) != 0)
        skip("no prof.active");
}

/* ---- the threads ---- */

static void wait_for_the_end(void)
{
    char byte;

    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    syscall(SYS_exit_group, 0);
}

static void *run_thread(void *arg)
{
    int number = (int)(intptr_t)arg;

    build(number);
    sem_post(&built);
    sem_wait(&fall);
    fall_sick(number);
    wait_for_the_end();
    return NULL;
}

static void start_threads(void)
{
    pthread_t thread;

    sem_init(&built, 0, 0);
    sem_init(&fall, 0, 0);
    for (int i = 1; i <= THREADS; i++)
        pthread_create(&thread, NULL, run_thread, (void *)(intptr_t)i);
    build(0);
    for (int i = 1; i <= THREADS; i++)
        sem_wait(&built);
}

int main(int argc, char **argv)
{
    char byte;

    if (argc < 2)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    state = argv[1];
    start_threads();
    switch_off();
    say("ready\n");
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return 0;
    for (int i = 1; i <= THREADS; i++)
        sem_post(&fall);
    fall_sick(0);
    wait_for_the_end();
}
