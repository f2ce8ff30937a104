/*
 * storm REPORT THREADS SMALLEST LARGEST PAUSE: threads that only allocate and free, check the
 * content of their blocks, and count their rounds in a shared file. After a burst of rounds a
 * thread sleeps for up to PAUSE microseconds; 0: never.
 */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

enum { THREADS_MAX = 256, BLOCKS = 32, BURST = 64 };

struct report {
    _Atomic uint64_t corrupt; /* blocks with wrong content */
    _Atomic uint64_t ticks;   /* timer signals handled */
    _Atomic uint64_t rounds[THREADS_MAX];
};

struct worker {
    struct report *report;
    unsigned index;
    size_t smallest, span;
    unsigned pause; /* microseconds */
};

static struct report *shared;

static void on_tick(int signo)
{
    (void)signo;
    atomic_fetch_add(&shared->ticks, 1);
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

struct block {
    unsigned char *bytes;
    size_t size;
    unsigned char mark;
};

static void fill(struct block *block, const struct worker *worker, unsigned *state)
{
    block->size = worker->smallest + next_random(state) % worker->span;
    block->bytes = malloc(block->size);
    block->mark = (unsigned char)next_random(state);
    if (!block->bytes)
        err(1, "malloc");
    block->bytes[0] = block->bytes[block->size - 1] = block->mark;
}

static void check_and_free(struct block *block, struct report *report)
{
    if (block->bytes[0] != block->mark || block->bytes[block->size - 1] != block->mark)
        atomic_fetch_add(&report->corrupt, 1);
    free(block->bytes);
}

static void *work(void *arg)
{
    const struct worker *worker = arg;
    struct block blocks[BLOCKS];
    unsigned state = worker->index * 2654435761u + 1;

    for (unsigned round = 1;; round++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            fill(&blocks[i], worker, &state);
        for (unsigned i = 0; i < BLOCKS; i++)
            check_and_free(&blocks[i], worker->report);
        atomic_fetch_add_explicit(&worker->report->rounds[worker->index], 1, memory_order_relaxed);
        if (worker->pause && round % BURST == 0)
            usleep(next_random(&state) % worker->pause);
    }
    return NULL;
}

static struct report *map_report(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    void *at;

    if (fd < 0 || ftruncate(fd, sizeof(struct report)))
        err(1, "%s", path);
    at = mmap(NULL, sizeof(struct report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        err(1, "mmap");
    close(fd);
    return at;
}

static void start_timer(void)
{
    const struct itimerval every = {{0, 1000}, {0, 1000}};
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};

    if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &every, NULL))
        err(1, "timer");
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MAX];
    unsigned count;

    if (argc != 6)
        errx(2, "usage: storm REPORT THREADS SMALLEST LARGEST PAUSE");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    shared = map_report(argv[1]);
    count = (unsigned)atoi(argv[2]);
    if (count < 1 || count > THREADS_MAX)
        errx(2, "1 to %d threads", THREADS_MAX);
    start_timer();
    for (unsigned i = 0; i < count; i++) {
        pthread_t thread;
        size_t smallest = (size_t)atol(argv[3]), largest = (size_t)atol(argv[4]);
        workers[i] =
            (struct worker){shared, i, smallest, largest - smallest + 1, (unsigned)atoi(argv[5])};
        if (i > 0 && pthread_create(&thread, NULL, work, &workers[i]))
            errx(1, "pthread_create");
    }
    work(&workers[0]);
}
