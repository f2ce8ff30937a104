/*
 * A process whose address space is locked for seconds by one of its threads, again and again:
 * occupier MODE REPORT [--time MS].
 *
 * MODE:
 *   populate  the thread populates a large mapping (MADV_POPULATE_READ), as a program does that
 *             touches or pins its memory; nobody can map or unmap memory meanwhile
 *   calm      the thread only sleeps
 *
 * The first thread sleeps and checks how long it slept; it has space on its stack. A second one
 * does the same on a small stack. Exit code 77: the kernel has no MADV_POPULATE_READ.
 */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

#define GIB         (1ull << 30)
#define SPACE       (48 * GIB)
#define LOCKED_NS   1500000000ull
#define SMALL_STACK (24 << 10)

static struct report *report;
static uint64_t sleep_ms = 20;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void fault(const char *text)
{
    snprintf(report->text, sizeof report->text, "%s", text);
    __atomic_add_fetch(&report->errors, 1, __ATOMIC_SEQ_CST);
}

/* Only page tables are needed: each page is the zero page. */
static void populate(char *space, uint64_t bytes)
{
    if (madvise(space, bytes, MADV_POPULATE_READ) != 0) {
        fprintf(stderr, "MADV_POPULATE_READ: %s\n", strerror(errno));
        _exit(errno == EINVAL ? 77 : 1);
    }
}

static void *occupy(void *unused)
{
    char *space = mmap(NULL, SPACE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t bytes = GIB, begun = now_ns(), took;

    (void)unused;
    if (space == MAP_FAILED)
        _exit(1);
    /* The lock is released and taken again for each huge page that is missing; small ones only. */
    madvise(space, SPACE, MADV_NOHUGEPAGE);
    populate(space, bytes);
    took = now_ns() - begun;
    while (bytes < SPACE && took * (bytes / GIB) < LOCKED_NS)
        bytes += GIB;
    for (;;) {
        madvise(space, bytes, MADV_DONTNEED);
        populate(space, bytes);
        __atomic_add_fetch(&report->helper_rounds, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void sleep_once(void)
{
    uint64_t begun = now_ns(), took;
    struct timespec pause = {(time_t)(sleep_ms / 1000), (long)(sleep_ms % 1000) * 1000000};
    int rc = clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);

    took = now_ns() - begun;
    if (rc == EINTR)
        __atomic_add_fetch(&report->eintr, 1, __ATOMIC_SEQ_CST);
    else if (rc != 0)
        fault("clock_nanosleep");
    if (rc == 0 && took < sleep_ms * 1000000)
        __atomic_add_fetch(&report->early, 1, __ATOMIC_SEQ_CST);
    if (took > sleep_ms * 1000000 && took - sleep_ms * 1000000 > report->max_late_ns)
        report->max_late_ns = took - sleep_ms * 1000000;
}

static void *sleep_on_small_stack(void *unused)
{
    (void)unused;
    for (;;)
        sleep_once();
    return NULL;
}

static void start(void *(*function)(void *), size_t stack)
{
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    if (stack)
        pthread_attr_setstacksize(&attributes, stack);
    if (pthread_create(&thread, &attributes, function, NULL) != 0)
        _exit(1);
}

int main(int argc, char **argv)
{
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 3 || (fd = open(argv[2], O_RDWR)) < 0)
        return 2;
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (report == MAP_FAILED)
        return 2;
    if (argc > 4)
        sleep_ms = strtoull(argv[4], NULL, 10);
    free(malloc(100));
    report->magic = REPORT_MAGIC;
    report->pid = getpid();
    start(sleep_on_small_stack, SMALL_STACK);
    if (strcmp(argv[1], "populate") == 0) {
        start(occupy, 0);
        while (!__atomic_load_n(&report->helper_rounds, __ATOMIC_SEQ_CST))
            sleep_once();
    }
    report->max_late_ns = 0;
    report->state = REPORT_READY;
    for (;;) {
        sleep_once();
        __atomic_add_fetch(&report->iterations, 1, __ATOMIC_SEQ_CST);
    }
}
