/*
 * Replaces the oldest entries of a cache of 1 KiB objects, which is full before it says so, and
 * keeps 512 bytes in ten ways of it for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ENTRIES = 64 << 10, REPLACED = 40, KEPT = 8, PAUSE_NS = 10000000 };

static void *entries[ENTRIES];
static size_t oldest;
static char *volatile newest;

__attribute__((noinline)) static void cache_put(void)
{
    free(entries[oldest]);
    entries[oldest] = malloc(1024);
    if (!entries[oldest])
        abort();
    memset(entries[oldest], 1, 1024);
    oldest = (oldest + 1) % ENTRIES;
}

__attribute__((noinline)) static void keep_for_ever(void)
{
    char *kept = malloc(512);

    if (!kept)
        abort();
    memset(kept, 2, 512);
    newest = kept;
}

int main(void)
{
    const struct timespec pause = {0, PAUSE_NS};

    for (size_t i = 0; i < ENTRIES; i++)
        cache_put();
    puts("ready");
    fflush(stdout);
    for (;;) {
        for (unsigned i = 0; i < REPLACED; i++)
            cache_put();
        for (unsigned i = 0; i < KEPT; i++)
            keep_for_ever();
        nanosleep(&pause, NULL);
    }
}
