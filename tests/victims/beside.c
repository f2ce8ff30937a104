/*
 * A process with two allocators: that of malloc, which it uses all the time, and a jemalloc in a
 * library that it loads, which its only thread has never used.
 *
 *   beside LIBRARY REPORT
 *
 * The library has je2_malloc. The process counts its blocks in the first word of the file REPORT.
 * jemalloc's key for its threads' data is one of those for which glibc allocates memory at the
 * first use. Ends when its parent does.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { KEYS = 40, BLOCKS = 64, LEAST = 512, STEP = 170 };

static volatile uint64_t *count;

/* Sizes that neither glibc nor a jemalloc without thread caches serves without a lock. */
static void *allocate(void *arg)
{
    void *blocks[BLOCKS] = {NULL};

    for (size_t i = 0;; i = (i * 7 + 1) % BLOCKS) {
        free(blocks[i]);
        blocks[i] = malloc(arg ? LEAST + 1000 + i * STEP : LEAST);
        if (!blocks[i])
            abort();
        *(volatile char *)blocks[i] = 1;
        ++*count;
    }
}

int main(int argc, char **argv)
{
    pthread_key_t key;
    pthread_t thread;
    void *map;
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 3 || (fd = open(argv[2], O_RDWR)) < 0)
        return 2;
    map = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return 2;
    count = map;
    for (int i = 0; i < KEYS; i++)
        pthread_key_create(&key, NULL);
    if (!dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) {
        fprintf(stderr, "beside: %s\n", dlerror());
        return 77;
    }
    if (pthread_create(&thread, NULL, allocate, getenv("LD_PRELOAD") ? NULL : argv))
        return 2;
    pthread_exit(NULL); /* it has used the library: its constructor ran here */
}
