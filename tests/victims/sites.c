/*
 * sites: a process whose live memory is known to the byte, by function. It prints "ready", and
 * for each byte on stdin calls keep_small once more and prints "grown".
 */
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SMALL = 1000, LARGE = 10, DEEP = 20, BLOCKS = 65536 };

static void *blocks[BLOCKS];
static size_t used;

/* Inlined: the profile has its line, not a call of its own. */
static inline __attribute__((always_inline)) void make(size_t size)
{
    void *block = malloc(size);

    if (!block || used == BLOCKS)
        err(1, "malloc");
    memset(block, 1, size);
    blocks[used++] = block;
}

__attribute__((noinline)) static void keep_small(void)
{
    for (size_t i = 0; i < SMALL; i++)
        make(64);
}

__attribute__((noinline)) static void keep_large(void)
{
    for (size_t i = 0; i < LARGE; i++)
        make(65536);
}

/* The asm keeps the recursion from becoming a loop. */
__attribute__((noinline)) static void keep_deep(unsigned depth)
{
    if (depth > 0)
        keep_deep(depth - 1);
    else
        for (size_t i = 0; i < DEEP; i++)
            make(1024);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void keep_in_thread(void)
{
    make(4096);
    __asm__ volatile("" ::: "memory");
}

static void *work(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "site worker");
    keep_in_thread();
    for (;;)
        pause();
    return NULL;
}

int main(void)
{
    pthread_t thread;
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    keep_small();
    keep_large();
    keep_deep(5);
    if (pthread_create(&thread, NULL, work, NULL))
        errx(1, "pthread_create");
    while (!__atomic_load_n(&blocks[SMALL + LARGE + DEEP], __ATOMIC_ACQUIRE))
        usleep(1000);
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) == 1) {
        keep_small();
        puts("grown");
        fflush(stdout);
    }
    return 0;
}
