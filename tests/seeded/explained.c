/*
 * A process whose memory has one large fact. The first argument:
 *
 *   waste MIB  fills MIB of objects of 512 bytes, frees 4 of 5 in every slab, and idles: its RSS
 *              trembles, as pages come one by one and go all at once
 *   grow       keeps 40 more objects of 512 bytes each 20 ms
 *   sizes      keeps one more object of each of ten sizes each 10 ms
 *   reuse MIB  frees as waste does, and then grows: its objects take what is free
 *   map        touches 100 KiB more of an anonymous mapping each 50 ms
 *   little     touches 4 KiB more of one each 50 ms
 *   file PATH  touches 100 KiB more of a mapped file each 50 ms
 *
 * It prints "ready WASTE", the bytes of free objects in its slabs, and runs until it is killed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 512, KEPT = 5, NOISE = 16 << 20, STEP = 200 << 10, MAPPED = 1 << 30 };

static void *table[(1 << 30) / SIZE];

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static size_t waste(size_t bytes)
{
    const size_t count = bytes / SIZE;
    size_t freed = 0;

    for (size_t i = 0; i < count; i++)
        table[i] = memset(malloc(SIZE), 1, SIZE);
    for (size_t i = 0; i < count; i++)
        if (i % KEPT) {
            free(table[i]);
            freed += SIZE;
        }
    return freed;
}

static char *map(size_t bytes)
{
    char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (area == MAP_FAILED)
        abort();
    return area;
}

/* Some 2 MiB more in most seconds, and never more than NOISE. */
static void tremble(char *area)
{
    for (size_t at = 0;; at += STEP) {
        if (at + STEP > NOISE) {
            madvise(area, NOISE, MADV_DONTNEED);
            at = 0;
        }
        memset(area + at, 1, STEP);
        sleep_ms(100);
    }
}

static void keep_objects(void)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        table[i] = memset(malloc(SIZE), 1, SIZE);
        if (i % 40 == 0)
            sleep_ms(20);
    }
}

static void keep_sizes(void)
{
    for (;;) {
        for (size_t i = 0; i < 10; i++)
            memset(malloc(512 << i / 2), 1, 512 << i / 2);
        sleep_ms(10);
    }
}

static char *map_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    char *area = ftruncate(fd, MAPPED)
                     ? MAP_FAILED
                     : mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (area == MAP_FAILED)
        abort();
    return area;
}

static void touch_more(char *area, size_t step)
{
    for (size_t at = 0; at < MAPPED; at += step) {
        memset(area + at, 1, step);
        sleep_ms(50);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const int file = strcmp(mode, "file") == 0;
    size_t freed = argc > 2 && !file ? waste((size_t)atol(argv[2]) << 20) : 0;

    printf("ready %zu\n", freed);
    fflush(stdout);
    if (strcmp(mode, "waste") == 0)
        tremble(map(NOISE));
    if (strcmp(mode, "grow") == 0 || strcmp(mode, "reuse") == 0)
        keep_objects();
    if (strcmp(mode, "sizes") == 0)
        keep_sizes();
    if (file)
        touch_more(map_file(argv[2]), 100 << 10);
    touch_more(map(MAPPED + (1 << 20)), strcmp(mode, "little") ? 100 << 10 : 4 << 10);
    return 0;
}
