#include "jemalloc/sink.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SINK_FIRST = 4 << 20, SINK_LEAST = 64 << 20 };

void sink_init(struct sink *sink, size_t limit)
{
    memset(sink, 0, sizeof *sink);
    sink->limit = limit;
}

/* "MemAvailable:    1024 kB" (fs/proc/meminfo.c) */
size_t sink_affordable(const struct procfs *proc, size_t most)
{
    static const char key[] = "\nMemAvailable:";
    char text[4096];
    ssize_t n = procfs_read(proc, text, sizeof text, "meminfo");
    const char *line = n > 0 ? strstr(text, key) : NULL;
    unsigned long long kib = line ? strtoull(line + sizeof key - 1, NULL, 10) : 0;

    if (kib == 0 || kib / 2 > most / 1024)
        return most;
    return kib * 512 < SINK_LEAST ? SINK_LEAST : (size_t)kib * 512;
}

/* Grown by mremap(2): pages move, bytes are never copied. */
static bool sink_grow(struct sink *sink, size_t wanted)
{
    size_t size = sink->mapped ? sink->mapped : SINK_FIRST;
    void *at;

    while (size < wanted)
        size *= 2;
    if (sink->mapped)
        at = mremap(sink->bytes, sink->mapped, size, MREMAP_MAYMOVE);
    else
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return false;
    /* The target waits while these pages are first touched: fewer and larger ones. */
    madvise(at, size, MADV_HUGEPAGE);
    sink->bytes = at;
    sink->mapped = size;
    return true;
}

unsigned char *sink_reserve(struct sink *sink, size_t len)
{
    if (len > sink->limit - sink->len)
        return NULL;
    if ((!sink->mapped || sink->len + len > sink->mapped) && !sink_grow(sink, sink->len + len))
        return NULL;
    return sink->bytes + sink->len;
}

void sink_free(struct sink *sink)
{
    if (sink->mapped)
        munmap(sink->bytes, sink->mapped);
    memset(sink, 0, sizeof *sink);
}
