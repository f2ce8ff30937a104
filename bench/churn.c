/*
 * A leak of some megabytes a second among some gigabytes a second that are freed again:
 *
 *   churn LEAK_MB CHURN_MB COUNTER
 *
 * Each round of a millisecond allocates and frees CHURN_MB / 1000 of blocks, and keeps
 * LEAK_MB / 1000. The file COUNTER gets the number of rounds, as a uint64_t.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LEAKED = 256, BLOCK = 64 << 10, BLOCKS = 64 };

void leak_session(size_t bytes);
void churn_request(size_t bytes);

__attribute__((noinline)) void leak_session(size_t bytes)
{
    static void *last;

    for (size_t done = 0; done < bytes; done += LEAKED) {
        void **kept = malloc(LEAKED);
        memset(kept, 1, LEAKED);
        *kept = last;
        last = kept;
    }
}

__attribute__((noinline)) void churn_request(size_t bytes)
{
    void *blocks[BLOCKS];

    while (bytes) {
        size_t count = 0;
        for (; count < BLOCKS && bytes; count++) {
            size_t size = bytes < BLOCK ? bytes : BLOCK;
            blocks[count] = malloc(size);
            memset(blocks[count], 2, size);
            bytes -= size;
        }
        while (count)
            free(blocks[--count]);
    }
}

static volatile uint64_t *map_counter(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    void *at;

    if (fd < 0 || ftruncate(fd, 4096))
        return NULL;
    at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

int main(int argc, char **argv)
{
    volatile uint64_t *rounds = argc > 3 ? map_counter(argv[3]) : NULL;
    struct timespec next;

    if (!rounds)
        return 1;
    size_t leak = strtoul(argv[1], NULL, 10) * 1000, churn = strtoul(argv[2], NULL, 10) * 1000;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;; ++*rounds) {
        churn_request(churn);
        leak_session(leak);
        next.tv_nsec += 1000000;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
}
