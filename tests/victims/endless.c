/*
 * A program of one or more threads without call frame information, in functions
 * that never return: no thread of it can be proven outside the allocator.
 *
 *   endless COUNTER MODE [THREADS]
 *
 * COUNTER is a file of 8 bytes, which it maps to count its rounds. MODE:
 *
 *   asleep   all threads sleep
 *   allocate each of THREADS allocates all the time; the first one sleeps
 *   compute  each of THREADS computes, and allocates seldom; the first one sleeps
 *   wake     each of THREADS does as in compute, but sleeps most of the time
 *
 * The first thread sleeps in read(2), and answers each byte of stdin with one of
 * stdout. The stack of each thread contains return addresses of the allocator
 * that are left over, which only call frame information can tell from frames:
 * a function that never returns does not show where its caller's frame is.
 * Compile it without: -fno-asynchronous-unwind-tables -fno-unwind-tables.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 6000, THREADS_MAX = 64, LARGE = 200000, SMALL = 3000, COMPUTED = 20000 };

static uint64_t *counter;

/* Called through pointers that the compiler cannot follow: nothing tells a caller its callee. */
static void (*volatile serve)(void *room, const char *mode);

/* Leaves the return addresses of a call into the allocator where the caller puts its room next. */
static __attribute__((noinline)) void soil(void)
{
    char below[200];
    void *block;

    __asm__ volatile("" : : "r"(below) : "memory");
    for (size_t size = 16; size <= LARGE; size *= 3) {
        block = malloc(size);
        if (!block)
            abort();
        *(volatile char *)block = 1;
        free(block);
    }
}

static __attribute__((noinline)) void live_in_room(const char *mode)
{
    char room[ROOM];

    __asm__ volatile("" : : "r"(room) : "memory");
    serve(room, mode);
}

static void compute(void)
{
    for (volatile int i = 0; i < COMPUTED; i++)
        ;
}

static void allocate(size_t size)
{
    void *block = malloc(size);

    if (!block)
        abort();
    *(volatile char *)block = 1;
    free(block);
}

static void work(void *room, const char *mode)
{
    const struct timespec pause = {0, 1000000};

    (void)room;
    for (uint64_t round = 0;; round++) {
        if (*mode == 'a')
            allocate(SMALL + round % 64 * 512);
        else
            compute();
        if (*mode != 'a' && round % 64 == 0)
            allocate(SMALL);
        if (*mode == 'w')
            nanosleep(&pause, NULL);
        __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
    }
}

static void answer(void *room, const char *mode)
{
    char byte;

    (void)room;
    (void)mode;
    while (read(STDIN_FILENO, &byte, 1) == 1)
        if (write(STDOUT_FILENO, &byte, 1) != 1)
            break;
    _exit(0);
}

static void *worker_main(void *mode)
{
    soil();
    live_in_room(mode);
    return NULL;
}

static void map_counter(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, sizeof *counter))
        _exit(1);
    counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counter == MAP_FAILED)
        _exit(1);
    close(fd);
}

int main(int argc, char **argv)
{
    int threads = argc > 3 ? atoi(argv[3]) : 1;
    pthread_t thread;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN); /* like every server: a static program then contains sigaction */
    if (argc < 3 || threads < 1 || threads > THREADS_MAX)
        return 2;
    map_counter(argv[1]);
    serve = work;
    if (strcmp(argv[2], "asleep") != 0)
        for (int i = 0; i < threads; i++)
            if (pthread_create(&thread, NULL, worker_main, argv[2]))
                return 1;
    usleep(50000);
    serve = answer;
    soil();
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    live_in_room(argv[2]);
    return 0;
}
