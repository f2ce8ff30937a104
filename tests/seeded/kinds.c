/*
 * A process that grows in one kind of memory at a time: `kinds`. One command a line on stdin,
 * each answered by "ok", or by "no" where the kernel has no such memory:
 *
 *   heap KIB    malloc in small objects, by the first thread
 *   arena KIB   the same by another thread, which stays
 *   map KIB     one anonymous mapping
 *   stack KIB   four threads that use so much of their stacks, all together, and stay
 *   share KIB   shared memory (memfd_create(2))
 *   huge KIB    mapped huge pages
 *   file KIB    pages of a file that is mapped
 *   deep KIB    one anonymous mapping, below 60 calls with 700 bytes each
 *
 * It takes 5 ms for each 256 KiB, but for files, and has no transparent huge pages.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, SMALL = 1000, THREADS = 4, CALLS = 60, CALL = 700, PIECE = 256 << 10 };

/* Some time for each piece, so that samples find space in the buffers. */
static void rest_after(size_t done, size_t step)
{
    if (done / PIECE != (done + step) / PIECE)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static void touch(volatile char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += PAGE) {
        at[i] = 1;
        rest_after(i, PAGE);
    }
}

__attribute__((noinline)) static void grow_heap(size_t bytes)
{
    for (size_t at = 0; at < bytes; at += SMALL) {
        memset(malloc(SMALL), 1, SMALL);
        rest_after(at, SMALL);
    }
}

static pthread_barrier_t done;
static size_t wanted;

static void *grow_arena(void *unused)
{
    grow_heap(wanted);
    pthread_barrier_wait(&done);
    for (;;)
        pause();
    return unused;
}

__attribute__((noinline)) static void use_stack(size_t bytes)
{
    volatile char space[PAGE];

    space[0] = 1;
    rest_after(bytes, PAGE);
    if (bytes > PAGE)
        use_stack(bytes - PAGE);
    space[PAGE - 1] = 1;
}

static void *grow_stack(void *unused)
{
    use_stack(wanted / THREADS);
    pthread_barrier_wait(&done);
    for (;;)
        pause();
    return unused;
}

/* Returns when the threads have done their part. */
static void start(void *(*run)(void *), unsigned count, size_t bytes)
{
    pthread_t thread;
    pthread_attr_t attr;

    wanted = bytes;
    pthread_barrier_init(&done, NULL, count + 1);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, wanted + (1 << 20));
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&thread, &attr, run, NULL))
            abort();
    pthread_barrier_wait(&done);
}

__attribute__((noinline)) static int grow_map(size_t bytes, int flags, int fd)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

    if (memory == MAP_FAILED)
        return 0;
    touch(memory, bytes);
    return 1;
}

/* Nobody else has this file in memory. */
__attribute__((noinline)) static int grow_file(size_t bytes)
{
    FILE *file = tmpfile();
    volatile unsigned sum = 0;

    if (!file || ftruncate(fileno(file), (off_t)bytes))
        return 0;
    const volatile char *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fileno(file), 0);
    for (size_t i = 0; i < bytes; i += PAGE)
        sum += (unsigned)memory[i];
    return 1;
}

__attribute__((noinline)) static int grow_deep(unsigned calls, size_t bytes)
{
    volatile char space[CALL];
    int good;

    space[0] = (char)calls;
    good = calls ? grow_deep(calls - 1, bytes) : grow_map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    return space[0] == (char)calls && good;
}

static int obey(const char *what, size_t bytes)
{
    if (strcmp(what, "heap") == 0)
        grow_heap(bytes);
    else if (strcmp(what, "arena") == 0)
        start(grow_arena, 1, bytes);
    else if (strcmp(what, "stack") == 0)
        start(grow_stack, THREADS, bytes);
    else if (strcmp(what, "map") == 0)
        return grow_map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    else if (strcmp(what, "huge") == 0)
        return grow_map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
    else if (strcmp(what, "file") == 0)
        return grow_file(bytes);
    else if (strcmp(what, "deep") == 0)
        return grow_deep(CALLS, bytes);
    else if (strcmp(what, "share") == 0) {
        int fd = memfd_create("kinds", MFD_CLOEXEC);
        return ftruncate(fd, (off_t)bytes) == 0 && grow_map(bytes, MAP_SHARED, fd);
    }
    return 1;
}

int main(void)
{
    char line[64], what[16];
    size_t kib;

    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a fault is a page */
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        puts(sscanf(line, "%15s %zu", what, &kib) == 2 && obey(what, kib << 10) ? "ok" : "no");
        fflush(stdout);
    }
    return 0;
}
