/*
 * Two real-time threads that are always ready, on one CPU: the first has the higher priority, and
 * so the second runs only where the first is stopped.
 *
 *   realtime CPU REPORT
 *
 * The file REPORT holds two 64-bit numbers: the first thread's tid once it runs, and the longest
 * time in ns for which it did not. Exit code 77: not permitted. Ends with its parent, and after
 * some seconds, so that nothing keeps the CPU.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { HIGH = 10, LOW = 5, SECONDS = 15 };

static volatile uint64_t *report;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void become(int priority)
{
    const struct sched_param param = {.sched_priority = priority};

    if (sched_setscheduler(0, SCHED_FIFO, &param) != 0)
        _exit(77);
}

static void *run_low(void *arg)
{
    become(LOW);
    for (;;)
        ;
    return arg;
}

static void *run_high(void *arg)
{
    uint64_t begun = now_ns(), last = begun, now = begun;

    become(HIGH);
    report[0] = (uint64_t)syscall(SYS_gettid);
    for (; now - begun < SECONDS * 1000000000ull; last = now) {
        now = now_ns();
        if (now - last > report[1])
            report[1] = now - last;
    }
    exit(0);
    return arg;
}

int main(int argc, char **argv)
{
    char *block = malloc(100);
    pthread_t thread;
    cpu_set_t one;
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 3 || !block || (fd = open(argv[2], O_RDWR)) < 0)
        return 2;
    block[0] = 1;
    report = mmap(NULL, 2 * sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)atoi(argv[1]), &one);
    if (report == MAP_FAILED || sched_setaffinity(0, sizeof one, &one) != 0 ||
        pthread_create(&thread, NULL, run_low, NULL) ||
        pthread_create(&thread, NULL, run_high, NULL))
        return 2;
    pthread_exit(NULL);
}
