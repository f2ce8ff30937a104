/*
 * A process with a number of live blocks from one site that never changes, though each block
 * lives only for a short time.
 *
 *   turnover turn BLOCKS MS [THREADS]   the threads, by default twice as many as CPUs, never sleep
 *                                       and replace each block when it is MS milliseconds old
 *   turnover react BLOCKS               allocates the blocks as soon as it sees that prof.active is
 *                                       true, and frees them as soon as it sees that it is false
 *
 * Prints "ready" before the first block; react prints "full" when all blocks are allocated and
 * "empty" when all are freed. Ends with its parent.
 */
#include <err.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 100, THREADS_MAX = 1024, MS = 1000000, LOOK_NS = 20000 };

struct slot {
    void *block;
    uint64_t until;
};

static size_t blocks, threads;
static uint64_t lifetime;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

__attribute__((noinline)) static void *turn_over(void)
{
    void *block = malloc(BLOCK);

    if (!block)
        err(1, "malloc");
    *(volatile char *)block = 1;
    return block;
}

static struct slot *make_slots(size_t count)
{
    struct slot *slots = calloc(count, sizeof(*slots));

    if (!slots)
        err(1, "calloc");
    return slots;
}

/* The new block first: the number of live blocks never falls below that of the slots. */
static void replace(struct slot *slot)
{
    void *former = slot->block;

    slot->block = turn_over();
    free(former);
    slot->until = now_ns() + lifetime;
}

static void *turn(void *data)
{
    const size_t count = blocks / threads, start = (size_t)(uintptr_t)data * lifetime / threads;
    struct slot *slots = make_slots(count);

    for (size_t i = 0; i < count; i++)
        slots[i].until = now_ns() + start + i * (lifetime / count);
    for (size_t i = 0;; i = (i + 1) % count)
        if (now_ns() >= slots[i].until)
            replace(&slots[i]);
    return NULL;
}

static void turn_all(void)
{
    pthread_t thread;

    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&thread, NULL, turn, (void *)(uintptr_t)i))
            errx(1, "pthread_create");
    for (;;)
        pause();
}

static bool is_active(void)
{
    bool active = false;
    size_t len = sizeof(active);

    if (mallctl("prof.active", &active, &len, NULL, 0))
        errx(1, "prof.active");
    return active;
}

static void say(const char *word)
{
    char line[16];
    int len = snprintf(line, sizeof(line), "%s\n", word);

    if (write(STDOUT_FILENO, line, (size_t)len) != len)
        exit(1);
}

static void *react(void *data)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    struct slot *slots = data;

    for (bool full = false;; nanosleep(&look, NULL)) {
        if (is_active() == full)
            continue;
        full = !full;
        for (size_t i = 0; i < blocks; i++) {
            if (full)
                slots[i].block = turn_over();
            else
                free(slots[i].block);
        }
        say(full ? "full" : "empty");
    }
    return NULL;
}

static void react_all(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, react, make_slots(blocks)))
        errx(1, "pthread_create");
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    const bool turns = argc > 3 && strcmp(argv[1], "turn") == 0;

    if (argc < 3)
        errx(2, "turnover turn BLOCKS MS [THREADS] | turnover react BLOCKS");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    blocks = strtoul(argv[2], NULL, 10);
    lifetime = turns ? strtoul(argv[3], NULL, 10) * MS : 0;
    threads = argc > 4 ? strtoul(argv[4], NULL, 10) : 2 * (size_t)sysconf(_SC_NPROCESSORS_ONLN);
    if (threads == 0 || threads > THREADS_MAX || blocks < threads)
        errx(2, "%zu blocks, %zu threads", blocks, threads);
    say("ready");
    if (turns)
        turn_all();
    react_all();
}
