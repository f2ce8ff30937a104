/*
 * Many threads that sleep, and grow on request: `crowd THREADS`. One command a line on
 * stdin, each answered by "ok":
 *
 *   leak KIB MS   every thread touches its part of KIB, one thread after the other, all in MS
 *                 milliseconds: sleeper()
 *   late KIB MS   LATE threads start one after the other; each touches its part of KIB in
 *                 late_one() and ends
 *   more N        N more threads start
 *   churn ON      a child process maps, touches and unmaps memory all the time: 1 starts it, 0
 *                 ends it
 */
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, LATE = 100, THREADS_MAX = 40000, OTHER = 16 << 20 };

static sem_t turns[THREADS_MAX], done;
static char *volatile area;
static size_t part; /* bytes for each thread */

static char *map(size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        abort();
    madvise(at, bytes, MADV_NOHUGEPAGE);
    return at;
}

static void touch(volatile char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += PAGE)
        at[i] = 1;
}

__attribute__((noinline)) static void touch_part(size_t number)
{
    touch(area + number * part, part);
    sem_post(&done);
}

static void *sleeper(void *number)
{
    for (;;) {
        while (sem_wait(&turns[(size_t)number]))
            continue;
        touch_part((size_t)number);
    }
    return NULL;
}

static void *late_one(void *number)
{
    touch_part((size_t)number);
    return NULL;
}

static pthread_t start(void *(*body)(void *), size_t number)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 4 * PAGE > PTHREAD_STACK_MIN ? 4 * PAGE : PTHREAD_STACK_MIN);
    if (pthread_create(&thread, &attr, body, (void *)number) != 0) {
        perror("pthread_create");
        exit(1);
    }
    pthread_attr_destroy(&attr);
    return thread;
}

/* Returns how many threads there are then. */
static size_t start_sleepers(size_t from, size_t count)
{
    if (count > THREADS_MAX - from)
        exit(2);
    for (size_t i = from; i < from + count; i++) {
        sem_init(&turns[i], 0, 0);
        start(sleeper, i);
    }
    return from + count;
}

static void plan(size_t kib, size_t threads)
{
    part = (kib << 10) / threads / PAGE * PAGE;
    area = map(part * threads);
}

static void wait_ns(size_t ns)
{
    nanosleep(&(struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)}, NULL);
}

/* Pauses after each hundredth of the threads. */
static void leak(size_t kib, size_t ms, size_t threads)
{
    plan(kib, threads);
    for (size_t i = 0; i < threads; i++) {
        sem_post(&turns[i]);
        while (sem_wait(&done))
            continue;
        if (i % (threads / 100 + 1) == 0)
            wait_ns(ms * 10000);
    }
}

static void late(size_t kib, size_t ms)
{
    plan(kib, LATE);
    for (size_t i = 0; i < LATE; i++) {
        pthread_join(start(late_one, i), NULL);
        wait_ns(ms * 1000000 / LATE);
    }
}

static pid_t start_other(void)
{
    pid_t pid = fork();

    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        char *at = map(OTHER);
        touch(at, OTHER);
        munmap(at, OTHER);
    }
}

static void end_other(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    size_t threads = 0, kib, ms;
    pid_t other = 0;
    char line[128];

    sem_init(&done, 0, 0);
    threads = start_sleepers(0, argc > 1 ? strtoul(argv[1], NULL, 10) : 1);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "leak %zu %zu", &kib, &ms) == 2)
            leak(kib, ms, threads);
        else if (sscanf(line, "late %zu %zu", &kib, &ms) == 2)
            late(kib, ms);
        else if (sscanf(line, "more %zu", &kib) == 1)
            threads = start_sleepers(threads, kib);
        else if (strcmp(line, "churn 1\n") == 0)
            other = start_other();
        else if (strcmp(line, "churn 0\n") == 0)
            end_other(other);
        puts("ok");
        fflush(stdout);
    }
    return 0;
}
