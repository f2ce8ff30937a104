/*
 * A leak among churn: leaky FILE [THREADS]
 *
 * Each thread allocates and frees in churn, a few GB/s at most, and for each MiB of that leaks
 * a block of 1 KiB in leak_here, a thousandth. FILE has, as two 64-bit numbers that are kept
 * up to date, the bytes churned and the bytes leaked. It prints "ready". A line on stdin:
 *
 *   exec PROGRAM    becomes that program, with one argument: 1000
 *   stop            leaks no more, and answers "stopped"
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { CHURN = 4096, LEAK = 1024, PER_LEAK = 1 << 20, THREADS_MAX = 16, KEPT = 4 };

struct counters {
    _Atomic unsigned long long churned, leaked;
};

static struct counters *counters;
static atomic_bool stopped;
static void *volatile last_leak;

__attribute__((noinline)) static void leak_here(void)
{
    last_leak = malloc(LEAK);
    memset(last_leak, 1, LEAK);
    atomic_fetch_add(&counters->leaked, LEAK);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void churn(void)
{
    void *kept[KEPT] = {NULL};

    for (size_t bytes = 0, i = 0; bytes < PER_LEAK; bytes += CHURN, i++) {
        free(kept[i % KEPT]);
        kept[i % KEPT] = malloc(CHURN);
        *(volatile char *)kept[i % KEPT] = 1;
    }
    for (size_t i = 0; i < KEPT; i++)
        free(kept[i]);
    atomic_fetch_add(&counters->churned, PER_LEAK);
}

/* About 1 MB/s of leak in two threads: a pause for each MiB, a little shorter than a millisecond.
 */
static void *work(void *unused)
{
    for (;;) {
        churn();
        if (!atomic_load(&stopped))
            leak_here();
        usleep(1800);
    }
    return unused;
}

static bool map_counters(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *at = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, 4096) == 0)
        at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    counters = at;
    return at != MAP_FAILED;
}

static void obey(char *line)
{
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "exec ", 5) == 0) {
        execl(line + 5, line + 5, "1000", NULL);
        _exit(1);
    }
    atomic_store(&stopped, true);
    puts("stopped");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    unsigned long threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 2;
    static char line[4096];
    pthread_t thread;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 2 || threads > THREADS_MAX || !map_counters(argv[1]))
        return 2;
    for (unsigned long i = 0; i < threads; i++)
        if (pthread_create(&thread, NULL, work, NULL))
            return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin))
        obey(line);
    return 0;
}
