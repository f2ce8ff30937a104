/*
 * A leak among churn, for any allocator: `growing`. One command a line on stdin, each
 * answered by "ok":
 *
 *   run KIB MS   leak_here() leaks KIB in MS milliseconds, in objects of 64 bytes to 4 KiB,
 *                while churn_here() allocates, touches and frees 1 GB/s, or what it can
 *   leak KIB MS  the leak alone
 *   rest MS      does nothing for so long
 *   hold         allocates and touches a block of 40 MiB
 *   give         frees the block and what was leaked
 *
 * Both are at rest between the commands.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    BLOCK = 40 << 20, /* glibc always maps objects of this size */
    SMALL = 200,
    SMALL_COUNT = 512,
    STEPS_PER_S = 100,
    BLOCKS_PER_S = 25,
};

static atomic_bool leaking;
static void *volatile kept;
static char *held;
static void *blocks[SMALL_COUNT];

static void touch(volatile char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += PAGE)
        at[i] = 1;
    at[bytes - 1] = 1;
}

/* The objects are a list, so that they are lost to nobody but the program. */
__attribute__((noinline)) static size_t leak_here(unsigned number)
{
    static const size_t sizes[] = {64, PAGE, 160, 1024, PAGE, 512};
    size_t size = sizes[number % (sizeof sizes / sizeof *sizes)];
    void **object = malloc(size);

    if (!object)
        abort();
    touch((volatile char *)object, size);
    *object = kept;
    kept = object;
    return size;
}

__attribute__((noinline)) static void churn_here(void)
{
    char *block = malloc(BLOCK);

    if (!block)
        abort();
    touch(block, BLOCK);
    free(block);
    for (size_t i = 0; i < SMALL_COUNT; i++) {
        free(blocks[i]);
        if (!(blocks[i] = malloc(SMALL)))
            abort();
    }
}

/* Sleeps until the time *next, and sets it to one step later. */
static void pace(struct timespec *next, long per_s)
{
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
    next->tv_nsec += 1000000000 / per_s;
    if (next->tv_nsec >= 1000000000) {
        next->tv_nsec -= 1000000000;
        next->tv_sec++;
    }
}

static void *churn(void *unused)
{
    struct timespec next;

    clock_gettime(CLOCK_MONOTONIC, &next);
    while (atomic_load(&leaking)) {
        churn_here();
        pace(&next, BLOCKS_PER_S);
    }
    return unused;
}

static void leak_slowly(size_t bytes, unsigned ms)
{
    struct timespec next;
    unsigned steps = ms * STEPS_PER_S / 1000, number = 0;
    size_t done = 0;

    clock_gettime(CLOCK_MONOTONIC, &next);
    for (unsigned step = 1; step <= steps; step++) {
        while (done < bytes / steps * step)
            done += leak_here(number++);
        pace(&next, STEPS_PER_S);
    }
}

static void run(size_t bytes, unsigned ms)
{
    pthread_t thread;

    atomic_store(&leaking, true);
    if (pthread_create(&thread, NULL, churn, NULL) != 0)
        abort();
    leak_slowly(bytes, ms);
    atomic_store(&leaking, false);
    pthread_join(thread, NULL);
}

static void hold(void)
{
    free(held);
    held = malloc(BLOCK);
    if (!held)
        abort();
    touch(held, BLOCK);
}

static void give(void)
{
    free(held);
    held = NULL;
    while (kept) {
        void **object = kept;
        kept = *object;
        free(object);
    }
}

int main(void)
{
    char line[128];
    size_t kib;
    unsigned ms;

    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "run %zu %u", &kib, &ms) == 2)
            run(kib << 10, ms);
        else if (sscanf(line, "leak %zu %u", &kib, &ms) == 2)
            leak_slowly(kib << 10, ms);
        else if (sscanf(line, "rest %u", &ms) == 1)
            usleep(1000 * ms);
        else if (strcmp(line, "hold\n") == 0)
            hold();
        else if (strcmp(line, "give\n") == 0)
            give();
        puts("ok");
        fflush(stdout);
    }
    return 0;
}
