/*
 * A program that stops its own threads by signals, as crash reporters, thread dumpers and small
 * language runtimes do: stopper MODE REPORT [--time MS [FIFO]].
 *
 * MODE:
 *   collect  a thread sends SIGUSR1 to all others and waits until each has answered from its
 *            handler, which waits for SIGUSR2 (sigsuspend); then it lets them go on
 *   dump     the same, but the first thread stops the others, and sleeps while they are stopped
 *   jump     stops nobody: the handler of SIGUSR1 leaves by siglongjmp, and another thread dumps a
 *            profile into a FIFO, so that it owns a lock of jemalloc until someone reads that.
 *            A round in which the first thread is not cancelable is an error
 *
 * Some threads allocate all the time. One that is stopped may own a lock of jemalloc.
 */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { ALLOCATORS = 3, THREADS_MAX = ALLOCATORS + 1, BLOCKS = 24 };
enum { STOPPED_NS = 5000000, RUNNING_NS = 300000 };

static struct report *report;
static pthread_t threads[THREADS_MAX];
static size_t thread_count;
static sem_t answered;
static atomic_uint stops, resumes;
static sigjmp_buf round_start;

static void on_resume(int signo)
{
    (void)signo;
}

static void on_stop(int signo)
{
    const int saved = errno;
    const unsigned number = atomic_load(&stops);
    sigset_t wait;

    (void)signo;
    sigfillset(&wait);
    sigdelset(&wait, SIGUSR2);
    sem_post(&answered);
    while (atomic_load(&resumes) != number)
        sigsuspend(&wait);
    errno = saved;
}

static void sleep_ns(long ns)
{
    struct timespec pause = {0, ns};

    while (nanosleep(&pause, &pause) != 0)
        continue;
}

static void stop_the_others(void)
{
    atomic_fetch_add(&stops, 1);
    for (size_t i = 0; i < thread_count; i++)
        pthread_kill(threads[i], SIGUSR1);
    for (size_t i = 0; i < thread_count; i++)
        while (sem_wait(&answered) != 0)
            continue;
}

static void let_them_go(void)
{
    atomic_store(&resumes, atomic_load(&stops));
    for (size_t i = 0; i < thread_count; i++)
        pthread_kill(threads[i], SIGUSR2);
}

static void stop_once(void)
{
    stop_the_others();
    sleep_ns(STOPPED_NS);
    let_them_go();
    sleep_ns(RUNNING_NS);
    __atomic_add_fetch(&report->helper_rounds, 1, __ATOMIC_SEQ_CST);
}

static void *stopper(void *unused)
{
    for (;;)
        stop_once();
    return unused;
}

static void *allocator(void *unused)
{
    void *blocks[BLOCKS] = {NULL};
    unsigned seed = 1;

    for (;;) {
        size_t i = (unsigned)rand_r(&seed) % BLOCKS;
        free(blocks[i]);
        blocks[i] = malloc((size_t)(rand_r(&seed) % 4000) + 16);
        if (i == 0)
            sleep_ns(1000); /* so that the stopper gets a CPU on a busy machine, too */
    }
    return unused;
}

static void *dumper(void *fifo)
{
    const char *path = fifo;

    mallctl("prof.dump", NULL, NULL, &path, sizeof path);
    for (;;)
        pause();
    return NULL;
}

static pthread_t start(void *(*function)(void *), void *argument)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, function, argument) != 0)
        _exit(1);
    return thread;
}

static void jump(int signo)
{
    (void)signo;
    siglongjmp(round_start, 1);
}

static void jump_for_ever(char *fifo)
{
    const struct sigaction action = {.sa_handler = jump};
    int cancelable;

    start(dumper, fifo);
    sigaction(SIGUSR1, &action, NULL);
    sigsetjmp(round_start, 1);
    report->state = REPORT_READY;
    for (;;) {
        sleep_ns(1000000);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancelable);
        report->errors += cancelable != PTHREAD_CANCEL_ENABLE;
        report->iterations++;
    }
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    bool first_stops;
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 3 || (fd = open(argv[2], O_RDWR)) < 0)
        return 2;
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (report == MAP_FAILED)
        return 2;
    first_stops = strcmp(argv[1], "dump") == 0;
    sem_init(&answered, 0, 0);
    sigfillset(&action.sa_mask); /* SIGUSR2 arrives in sigsuspend, and nowhere else */
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = on_resume;
    sigaction(SIGUSR2, &action, NULL);
    report->magic = REPORT_MAGIC;
    report->pid = getpid();
    if (strcmp(argv[1], "jump") == 0 && argc > 5)
        jump_for_ever(argv[5]);
    for (size_t i = 0; i < ALLOCATORS; i++)
        threads[thread_count++] = start(allocator, NULL);
    if (!first_stops) {
        threads[thread_count++] = pthread_self();
        start(stopper, NULL);
    }
    report->state = REPORT_READY;
    for (;;) {
        uint64_t rounds = __atomic_load_n(&report->helper_rounds, __ATOMIC_SEQ_CST);
        if (first_stops)
            stop_once();
        while (!first_stops && rounds == __atomic_load_n(&report->helper_rounds, __ATOMIC_SEQ_CST))
            sleep_ns(1000000);
        __atomic_add_fetch(&report->iterations, 1, __ATOMIC_SEQ_CST);
    }
}
