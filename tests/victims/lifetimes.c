/*
 * Objects of known lifetimes, for jeattach recent: lifetimes
 *
 * It prints "ready". A line on stdin:
 *
 *   churn N MS     N times: allocates 1000 bytes in short_here, frees them after MS milliseconds,
 *                  and keeps 3000 bytes of long_here
 *   hand N         N times: allocates 2000 bytes in hand_here, which another thread frees
 *   name NAME      its thread has this name for jemalloc (thread.prof.name)
 *   max N          experimental.prof_recent.alloc_max=N
 *
 * The answer is "ok LOW HIGH": bounds of the lifetimes of `churn` in nanoseconds, by the clock that
 * jemalloc uses. Between two lines nothing is allocated.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

typedef int mallctl_type(const char *, void *, size_t *, void *, size_t);

static mallctl_type *mallctl;
static uint64_t low, high;
static void *volatile kept, *volatile handed;
static sem_t given, taken;

static uint64_t coarse(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((noinline)) static void *short_here(void)
{
    void *volatile at = malloc(1000);

    return at;
}

__attribute__((noinline)) static void long_here(void)
{
    kept = malloc(3000);
}

__attribute__((noinline)) static void hand_here(void)
{
    handed = malloc(2000);
}

static void churn(long count, long ms)
{
    low = UINT64_MAX;
    high = 0;
    for (long i = 0; i < count; i++) {
        uint64_t before = coarse();
        void *at = short_here();
        uint64_t after = coarse();
        usleep((useconds_t)ms * 1000);
        uint64_t least = coarse() - after;
        free(at);
        uint64_t most = coarse() - before;
        low = least < low ? least : low;
        high = most > high ? most : high;
        long_here();
    }
}

static void hand(long count)
{
    for (long i = 0; i < count; i++) {
        hand_here();
        sem_post(&given);
        sem_wait(&taken);
    }
}

static void *take(void *unused)
{
    free(malloc(100)); /* jemalloc records no release in a thread that has never allocated */
    sem_post(&taken);
    for (;;) {
        sem_wait(&given);
        free(handed);
        sem_post(&taken);
    }
    return unused;
}

static int obey(char *line)
{
    static char name[64];
    const char *at = name;
    long count = 0, ms = 0;
    ssize_t max;

    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "churn %ld %ld", &count, &ms) == 2)
        churn(count, ms);
    else if (sscanf(line, "hand %ld", &count) == 1)
        hand(count);
    else if (sscanf(line, "max %zd", &max) == 1)
        return mallctl("experimental.prof_recent.alloc_max", NULL, NULL, &max, sizeof(max));
    else if (sscanf(line, "name %63s", name) == 1)
        return mallctl("thread.prof.name", NULL, NULL, &at, sizeof(at));
    else
        return 1;
    return 0;
}

/* Without stdio, which allocates, also in dprintf. */
static int read_line(char *line, size_t size)
{
    size_t len = 0;

    while (len + 1 < size && read(STDIN_FILENO, line + len, 1) == 1)
        if (line[len++] == '\n')
            break;
    line[len] = '\0';
    return len > 0;
}

static void answer(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        _exit(3);
}

int main(void)
{
    static char line[256];
    pthread_t thread;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "lifetimes"); /* a loader may have started it */
    mallctl = (mallctl_type *)dlsym(RTLD_DEFAULT, "mallctl");
    if (!mallctl || sem_init(&given, 0, 0) || sem_init(&taken, 0, 0) ||
        pthread_create(&thread, NULL, take, NULL))
        return 2;
    sem_wait(&taken);
    answer("ready\n");
    while (read_line(line, sizeof(line))) {
        bool good = obey(line) == 0;
        snprintf(line, sizeof(line), "ok %llu %llu\n", (unsigned long long)low,
                 (unsigned long long)high);
        answer(good ? line : "failed\n");
    }
    return 0;
}
