/*
 * A program that allocates and counts: the target in the cells of the matrix.
 *
 *   subject COUNTER [LIBRARY]
 *
 * COUNTER is a file of 8 bytes, which it maps to count its rounds. It loads
 * LIBRARY with dlopen and does not use it. SUBJECT_PREFIX is the prefix of the
 * allocator's functions.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifdef SUBJECT_PREFIX
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define ALLOCATE    JOIN(SUBJECT_PREFIX, malloc)
#define RELEASE     JOIN(SUBJECT_PREFIX, free)
/* Makes the linker include the whole interface, as in a program that uses it. */
int JOIN(SUBJECT_PREFIX, mallctl)(const char *, void *, size_t *, void *, size_t);
void JOIN(SUBJECT_PREFIX, malloc_stats_print)(void (*)(void *, const char *), void *, const char *);
void *ALLOCATE(size_t);
void RELEASE(void *);
#else
#define ALLOCATE malloc
#define RELEASE  free
#endif

enum { KEPT = 64, BLOCK = 40000 };

static void take_interface(void)
{
#ifdef SUBJECT_PREFIX
    if (getenv("SUBJECT_STATS"))
        JOIN(SUBJECT_PREFIX, malloc_stats_print)(NULL, NULL, NULL);
    if (getenv("SUBJECT_EPOCH"))
        (void)JOIN(SUBJECT_PREFIX, mallctl)("epoch", NULL, NULL, NULL, 0);
#endif
}

static volatile uint64_t *map_counter(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *map = fd < 0 ? MAP_FAILED
                       : mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    close(fd);
    return map;
}

/* One round: frees a block and allocates another, and writes to each. */
static void run_round(void **kept, uint64_t round)
{
    void **slot = &kept[round % KEPT];

    RELEASE(*slot);
    *slot = ALLOCATE(BLOCK);
    if (!*slot)
        abort();
    memset(*slot, (int)round, BLOCK);
}

int main(int argc, char **argv)
{
    static void *kept[KEPT];
    const struct timespec pause = {0, 2000000};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN); /* like every server: a static program then contains sigaction */
    if (argc < 2)
        return 2;
#ifndef SUBJECT_STATIC
    if (argc > 2 && !dlopen(argv[2], RTLD_NOW)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
#endif
    take_interface();
    volatile uint64_t *counter = map_counter(argv[1]);
    for (uint64_t round = 0;; round++) {
        run_round(kept, round);
        *counter = round + 1;
        nanosleep(&pause, NULL);
    }
}
