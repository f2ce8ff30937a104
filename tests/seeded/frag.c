/*
 * A server whose slabs are nearly empty, in one of these ways (the first argument):
 *
 *   survivors  churn_a fills slabs of 48 bytes, and one object of each slab, of keep_b, stays
 *   resized    sessions of 48 bytes are replaced by fewer ones of 64; some of the old ones stay
 *   left       a thread has ended, and what it keeps pins slabs of its arena
 *   beside     one object of each slab stays, and a full cache has far more objects of that size
 *   four       one function has objects of four sizes, of which every fourth stays
 *   stacks     as survivors, but what stays is of 32 stacks
 *   ended      eight threads have ended, and each has pinned slabs of an arena of its own
 *   large      objects of 20 KiB, each of which jemalloc gives a page more
 *   pages      64 MiB of free pages, which jemalloc keeps until somebody purges them
 *   retained   the same 64 MiB after a purge, whose pages are in memory again
 *   untouched  slabs of four objects: one stays, one was written and freed, two are never written
 *   full       nothing is freed
 *
 * It prints "ready SIZE WASTE": the size class, and the bytes that are free in its slabs by
 * jemalloc's own counts; and sleeps until its stdin ends.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OBJECTS = 600000, MANY = 256, SOME = 4096 };

static void *table[OBJECTS], *fresh[OBJECTS / 8];
static int (*mallctl)(const char *, void *, size_t *, void *, size_t);

/* ---- what jemalloc counts ---- */

static size_t count(const char *name)
{
    size_t value = 0, len = sizeof value;
    uint32_t narrow;

    if (strstr(name, "nregs")) {
        len = sizeof narrow;
        return mallctl(name, &narrow, &len, NULL, 0) ? 0 : narrow;
    }
    return mallctl(name, &value, &len, NULL, 0) ? 0 : value;
}

static size_t count_of(const char *place, unsigned bin, const char *member)
{
    char name[64];

    snprintf(name, sizeof name, "%s.%u.%s", place, bin, member);
    return count(name);
}

/* 4096 is MALLCTL_ARENAS_ALL. */
static size_t waste_of(size_t size)
{
    uint64_t epoch = 1;
    unsigned bin = 0;

    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    while (count_of("arenas.bin", bin, "size") != size)
        bin++;
    return (count_of("stats.arenas.4096.bins", bin, "curslabs") *
                count_of("arenas.bin", bin, "nregs") -
            count_of("stats.arenas.4096.bins", bin, "curregs")) *
           size;
}

/* ---- who allocates ---- */

static void *fill(size_t size, int byte)
{
    void *block = malloc(size);

    if (!block)
        abort();
    return memset(block, byte, size);
}

/* Not the same code: else the compiler makes them one function. */
__attribute__((noinline)) static void *churn_a(void)
{
    return fill(48, 'a');
}

__attribute__((noinline)) static void *keep_b(void)
{
    return fill(48, 'b');
}

__attribute__((noinline)) static void *session_new(size_t size)
{
    return fill(size, 's');
}

/* Its slabs are full: it must not be blamed. */
__attribute__((noinline)) static void cache_add(size_t size)
{
    static void *volatile last;

    last = fill(size, 'c');
    (void)last;
}

/* A slab of 48 bytes has 256 objects (3 pages). */
static size_t survive(void)
{
    for (size_t i = 0; i < OBJECTS; i++)
        table[i] = i % MANY ? churn_a() : keep_b();
    for (size_t i = 0; i < OBJECTS; i++)
        if (i % MANY)
            free(table[i]);
    return 48;
}

static size_t resize(void)
{
    for (size_t i = 0; i < OBJECTS; i++)
        table[i] = session_new(48);
    for (size_t i = 0; i < OBJECTS; i++) {
        if (i % 8 == 0)
            fresh[i / 8] = session_new(64);
        if (i % 100)
            free(table[i]);
    }
    return 48;
}

static void *work(void *unused)
{
    (void)unused;
    survive();
    return NULL;
}

static size_t leave(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
        abort();
    return 48;
}

static size_t stand_beside(void)
{
    for (size_t i = 0; i < OBJECTS / 10; i++)
        cache_add(48);
    return survive();
}

/* The mean size, some 220 bytes, is of none of them. */
static size_t have_four_sizes(void)
{
    static const size_t sizes[] = {64, 320, 1024, 3072};
    const size_t bytes = 12 << 20;

    for (size_t j = 0; j < 4; j++) {
        const size_t count = bytes / sizes[j];
        for (size_t i = 0; i < count; i++)
            table[i] = session_new(sizes[j]);
        for (size_t i = 0; i < count; i++)
            if (i % 4)
                free(table[i]);
    }
    return 64;
}

/* Each depth is a stack. */
__attribute__((noinline)) static void *keep_deep(unsigned depth)
{
    void *volatile kept = depth ? keep_deep(depth - 1) : keep_b();

    return kept;
}

static size_t survive_in_stacks(void)
{
    for (size_t i = 0; i < OBJECTS; i++)
        table[i] = i % 16 ? churn_a() : keep_deep((unsigned)(i / 16 % 32));
    for (size_t i = 0; i < OBJECTS; i++)
        if (i % 16)
            free(table[i]);
    return 48;
}

static void *work_in_part(void *ctx)
{
    void **part = ctx;

    for (size_t i = 0; i < OBJECTS / 8; i++)
        part[i] = i % 32 ? churn_a() : keep_b();
    for (size_t i = 0; i < OBJECTS / 8; i++)
        if (i % 32)
            free(part[i]);
    return NULL;
}

/* All of them live at the same time, so that each has another arena. */
static size_t end_eight(void)
{
    pthread_t threads[8];

    for (size_t i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, work_in_part, &table[i * (OBJECTS / 8)]))
            abort();
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    return 48;
}

static size_t have_large(void)
{
    for (size_t i = 0; i < 2000; i++)
        table[i] = session_new(20 << 10);
    return 48;
}

static size_t free_pages(void)
{
    ssize_t never = -1;

    mallctl("arena.0.dirty_decay_ms", NULL, NULL, &never, sizeof never);
    for (size_t i = 0; i < 2000; i++)
        table[i] = session_new(32 << 10);
    for (size_t i = 0; i < 2000; i++)
        free(table[i]);
    return 48;
}

/* As the kernel does when it makes huge pages: nobody uses these pages, but they are there. */
static size_t touch_returned(void)
{
    free_pages();
    mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    mallctl("arena.0.purge", NULL, NULL, NULL, 0);
    for (size_t i = 0; i < 2000; i++)
        for (size_t at = 0; at < 32 << 10; at += 4096)
            ((volatile char *)table[i])[at] = 1;
    return 48;
}

static size_t leave_untouched(void)
{
    const size_t size = 7 << 10;

    for (size_t i = 0; i < 10000; i++)
        if (!(table[i] = i % 4 < 2 ? session_new(size) : malloc(size)))
            abort();
    for (size_t i = 0; i < 10000; i++)
        if (i % 4)
            free(table[i]);
    return size;
}

static size_t keep_all(void)
{
    for (size_t i = 0; i < OBJECTS; i++)
        table[i] = session_new(48);
    return 48;
}

int main(int argc, char **argv)
{
    struct pollfd input = {.events = POLLIN};
    const char *mode = argc > 1 ? argv[1] : "";
    size_t size;

    mallctl =
        (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
    if (!mallctl)
        return 2;
    for (size_t i = 0; i < SOME; i++)
        cache_add(128);
    size = strcmp(mode, "survivors") == 0   ? survive()
           : strcmp(mode, "resized") == 0   ? resize()
           : strcmp(mode, "left") == 0      ? leave()
           : strcmp(mode, "beside") == 0    ? stand_beside()
           : strcmp(mode, "four") == 0      ? have_four_sizes()
           : strcmp(mode, "stacks") == 0    ? survive_in_stacks()
           : strcmp(mode, "ended") == 0     ? end_eight()
           : strcmp(mode, "large") == 0     ? have_large()
           : strcmp(mode, "pages") == 0     ? free_pages()
           : strcmp(mode, "retained") == 0  ? touch_returned()
           : strcmp(mode, "untouched") == 0 ? leave_untouched()
                                            : keep_all();
    mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    printf("ready %zu %zu\n", size, waste_of(size));
    fflush(stdout);
    while (poll(&input, 1, -1) < 0)
        continue;
    return 0;
}
