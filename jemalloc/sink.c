#include "jemalloc/sink.h"
#include "base/list.h"
#include "base/units.h"
#include "base/util.h"
#include "host/procfs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SINK_FIRST = 4 << 20, SINK_LEAST = 64 << 20, SINK_DRAIN = 256 << 10 };

void sink_init(struct sink *sink, size_t limit)
{
    memset(sink, 0, sizeof *sink);
    sink->limit = limit;
}

size_t sink_affordable(const struct procfs *proc, size_t most)
{
    uint64_t available = 0;

    if (!meminfo_read(proc, "MemAvailable:", &available) || available == 0 || available / 2 > most)
        return most;
    return available / 2 < SINK_LEAST ? SINK_LEAST : (size_t)(available / 2);
}

unsigned char *sink_reserve(struct sink *sink, size_t len)
{
    size_t wanted;

    if (sink->drain && sink->len >= SINK_DRAIN) {
        sink->drain(sink->drain_ctx, sink->bytes, sink->len);
        sink->drained += sink->len;
        sink->len = 0;
    }
    if (len > sink->limit - sink->len)
        return NULL;
    /* The target waits while its pages are touched first: they are fewer, larger ones. */
    wanted = sink->len + len > SINK_FIRST ? sink->len + len : SINK_FIRST;
    if ((!sink->mapped || sink->len + len > sink->mapped) &&
        !LARGE_LIST_RESERVE(sink->bytes, sink->mapped, wanted))
        return NULL;
    return sink->bytes + sink->len;
}

fault_code sink_refuse(const struct sink *sink, const char *stage, struct fault *fault)
{
    char limit[UNITS_TEXT];

    return fault_set(fault, FAULT_TOO_LARGE, 0, stage, "%s",
                     units_bytes((double)sink->limit, limit));
}

fault_code sink_print(struct sink *sink, sink_printer print, const void *ctx, const char *stage,
                      const char *what, struct fault *fault)
{
    AUTO_FREE char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    bool good = out && print(ctx, out);
    unsigned char *space;

    if (out && fclose(out) != 0)
        good = false;
    if (!good)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, stage, "%s", what);
    space = sink_reserve(sink, len);
    if (!space)
        return sink_refuse(sink, stage, fault);
    memcpy(space, text, len);
    sink->len += len;
    return FAULT_NONE;
}

void sink_forget(struct sink *sink, size_t first, size_t len)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)sink->bytes + first,
              end = (start + len) / page * page;

    start = (start + page - 1) / page * page;
    if (start < end)
        (void)madvise((void *)start, end - start, MADV_DONTNEED);
}

void sink_free(struct sink *sink)
{
    large_list_free(sink->bytes, sink->mapped, 1);
    memset(sink, 0, sizeof *sink);
}
