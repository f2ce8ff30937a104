/*
 * sites [STACKS]: a process whose live memory is known to the byte, by function. Prints "ready".
 * For each byte on stdin it calls keep_small once more and prints "grown". STACKS more blocks of 16
 * bytes have one stack each.
 */
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SMALL = 1000, LARGE = 10, DEEP = 20, BLOCKS = 65536, LEVELS = 15 };

static void *blocks[BLOCKS];
static size_t used;

/* Inlined: the profile has its line, but no call of it. */
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

/* The asm prevents that the recursion becomes a loop. */
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

static void turn_left(unsigned path, unsigned levels);
static void turn_right(unsigned path, unsigned levels);

/* A path through a binary tree: the bits of its number choose the calls. */
static void walk(unsigned path, unsigned levels)
{
    if (levels == 0)
        make(16);
    else
        (path & 1 ? turn_right : turn_left)(path >> 1, levels - 1);
}

/* The asm prevents tail calls; its operand prevents the merging of the two functions. */
__attribute__((noinline)) static void turn_left(unsigned path, unsigned levels)
{
    walk(path, levels);
    __asm__ volatile("" ::"i"(1) : "memory");
}

__attribute__((noinline)) static void turn_right(unsigned path, unsigned levels)
{
    walk(path, levels);
    __asm__ volatile("" ::"i"(2) : "memory");
}

int main(int argc, char **argv)
{
    unsigned stacks = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
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
    for (unsigned i = 0; i < stacks; i++)
        walk(i, LEVELS);
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) == 1) {
        keep_small();
        puts("grown");
        fflush(stdout);
    }
    return 0;
}
