/*
 * A leak of some megabytes a second among some gigabytes a second that are freed again:
 *
 *   churn LEAK_MB CHURN_MB COUNTER
 *
 * Each round of 40 ms allocates, touches and frees a block of CHURN_MB / 25, and keeps
 * LEAK_MB / 25 in small objects. The file COUNTER gets the number of rounds, as a uint64_t.
 * The block is 40 MB for 1 GB/s, which every allocator gives back to the kernel: of memory
 * that an allocator hands on to the leak, the churn has taken the page faults.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LEAKED = 256, PAGE = 4096, ROUNDS_PER_S = 25 };

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
    volatile char *block = malloc(bytes);

    for (size_t i = 0; i < bytes; i += PAGE)
        block[i] = 1;
    free((void *)block);
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
    size_t leak = strtoul(argv[1], NULL, 10) * 1000000 / ROUNDS_PER_S,
           churn = strtoul(argv[2], NULL, 10) * 1000000 / ROUNDS_PER_S;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;; ++*rounds) {
        churn_request(churn);
        leak_session(leak);
        next.tv_nsec += 1000000000 / ROUNDS_PER_S;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
}
