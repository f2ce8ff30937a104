#include "occupy.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

#define GIB        (1ull << 30)
#define SPACE      (96 * GIB)
#define SMALL_PART (GIB / 4)

static sem_t begun;
static char *space;
static uint64_t lock_for_ns;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Every page is the zero page: only page tables are allocated, 2 MiB for each GiB. */
static uint64_t populate(uint64_t bytes)
{
    uint64_t from = now_ns();

    madvise(space, bytes, MADV_POPULATE_READ);
    return now_ns() - from;
}

static void *occupy(void *unused)
{
    uint64_t bytes = SMALL_PART, small_ns;

    populate(bytes);
    madvise(space, bytes, MADV_DONTNEED);
    small_ns = populate(bytes);
    while (bytes < SPACE && small_ns * (bytes / SMALL_PART) < lock_for_ns)
        bytes += SMALL_PART;
    madvise(space, bytes, MADV_DONTNEED);
    sem_post(&begun);
    for (;;) {
        populate(bytes);
        madvise(space, bytes, MADV_DONTNEED);
    }
    return unused;
}

bool occupy_start(uint64_t lock_ns)
{
    sigset_t all, former;
    pthread_t thread;
    int rc;

    lock_for_ns = lock_ns;
    space = mmap(NULL, SPACE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED || sem_init(&begun, 0, 0) != 0)
        return false;
    madvise(space, SPACE, MADV_NOHUGEPAGE); /* small pages take longer */
    if (madvise(space, 4096, MADV_POPULATE_READ) != 0) {
        errno = errno == EINVAL ? ENOSYS : errno;
        return false;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    rc = pthread_create(&thread, NULL, occupy, NULL);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    while (rc == 0 && sem_wait(&begun) != 0)
        continue;
    errno = rc;
    return rc == 0;
}
