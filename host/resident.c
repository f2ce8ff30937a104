#include "host/resident.h"
#include "base/cursor.h"
#include "host/task.h"

#include <errno.h>

enum { STATUS_TEXT_MAX = 16384 };

/* "VmRSS:	    1234 kB" (fs/proc/task_mmu.c, task_mem); 0 if there is no such line. */
static uint64_t status_bytes(struct cursor text, const char *key)
{
    uint64_t kilobytes, bytes;

    if (!cursor_find_number(text, key, &kilobytes))
        return 0;
    return __builtin_mul_overflow(kilobytes, 1024u, &bytes) ? UINT64_MAX : bytes;
}

bool resident_parse(const char *text, size_t len, struct resident *out)
{
    struct cursor all = cursor_of(text, len), line;

    *out = (struct resident){.rss = status_bytes(all, "VmRSS:"),
                             .anonymous = status_bytes(all, "RssAnon:"),
                             .files = status_bytes(all, "RssFile:"),
                             .shared = status_bytes(all, "RssShmem:"),
                             .swap = status_bytes(all, "VmSwap:"),
                             .peak = status_bytes(all, "VmHWM:"),
                             .size = status_bytes(all, "VmSize:"),
                             .huge_tlb = status_bytes(all, "HugetlbPages:")};
    return cursor_find_line(all, "VmRSS:", &line);
}

int resident_read(const struct procfs *proc, pid_t pid, struct resident *out)
{
    char text[STATUS_TEXT_MAX];
    ssize_t n = procfs_read(proc, text, sizeof text, "%d/status", (int)pid);

    if (n < 0)
        return (int)n;
    return resident_parse(text, (size_t)n, out) ? 0 : -ESRCH;
}

/* ---- smaps ---- */

enum part_kind { PART_ANONYMOUS, PART_HEAP, PART_STACK, PART_FILE, PART_SHARED };

/* One mapping, while its lines are read. */
struct part_reader {
    struct resident_parts *out;
    const remote_addr *pointers;
    size_t count;
    enum part_kind kind;
    remote_addr guard_end;  /* of the mapping before, if nobody may access it; else 0 */
    uint64_t rss, unshared; /* of the mapping: Rss, Anonymous */
};

static void add_resident(uint64_t *sum, uint64_t bytes)
{
    if (__builtin_add_overflow(*sum, bytes, sum))
        *sum = UINT64_MAX;
}

/* Adds the mapping that ends here to its kind. */
static void close_mapping_part(struct part_reader *reader)
{
    struct resident_parts *out = reader->out;
    uint64_t private = reader->unshared < reader->rss ? reader->unshared : reader->rss;
    uint64_t rest = reader->rss - private;

    add_resident(&out->rss, reader->rss);
    switch (reader->kind) {
    case PART_ANONYMOUS:
        add_resident(&out->anonymous, reader->rss);
        break;
    case PART_HEAP:
        add_resident(&out->heap, reader->rss);
        break;
    case PART_STACK:
        add_resident(&out->stacks, reader->rss);
        break;
    case PART_FILE:
        add_resident(&out->written, private);
        add_resident(&out->files, rest);
        break;
    case PART_SHARED:
        add_resident(&out->written, private);
        add_resident(&out->shared, rest);
        break;
    }
    reader->rss = reader->unshared = 0;
}

static bool has_stack(const struct part_reader *reader, const struct map_entry *entry)
{
    remote_addr low = entry->end - entry->start > RESIDENT_STACK_MAX
                          ? entry->end - RESIDENT_STACK_MAX
                          : entry->start;

    if (!(entry->prot & MAP_WRITE) || reader->guard_end != entry->start)
        return false;
    for (size_t i = 0; i < reader->count && reader->pointers[i] < entry->end; i++)
        if (reader->pointers[i] >= low)
            return true;
    return false;
}

bool resident_is_shared(struct cursor path)
{
    return cursor_begins(path, "/dev/shm/") || cursor_begins(path, "/memfd:") ||
           cursor_begins(path, "/SYSV") || cursor_begins(path, "/dev/zero") ||
           cursor_begins(path, "[anon_shmem:");
}

static void open_mapping_part(struct part_reader *reader, const struct map_entry *entry)
{
    struct cursor path = cursor_of(entry->path, entry->path_len);

    reader->out->mappings++;
    if (cursor_is(path, "[heap]"))
        reader->kind = PART_HEAP;
    else if (cursor_is(path, "[stack]"))
        reader->kind = PART_STACK;
    else if (resident_is_shared(path))
        reader->kind = PART_SHARED;
    else if (cursor_begins(path, "/"))
        reader->kind = PART_FILE;
    else
        reader->kind = PART_ANONYMOUS;
    if (reader->kind == PART_ANONYMOUS && has_stack(reader, entry)) {
        reader->kind = PART_STACK;
        reader->out->thread_stacks++;
    }
    reader->guard_end = entry->prot & (MAP_READ | MAP_WRITE | MAP_EXEC) ? 0 : entry->end;
}

bool resident_parts_parse(const char *text, size_t len, const remote_addr *pointers, size_t count,
                          struct resident_parts *out)
{
    struct cursor all = cursor_of(text, len), line;
    struct part_reader reader = {.out = out, .pointers = pointers, .count = count};
    struct map_entry entry;
    uint64_t bytes;

    *out = (struct resident_parts){0};
    while (cursor_take_line(&all, &line)) {
        struct cursor same = line;
        /* "Rss:                1234 kB" (fs/proc/task_mmu.c, __show_smap) */
        if (parse_map_line(&same, &entry) == 1) {
            close_mapping_part(&reader);
            open_mapping_part(&reader, &entry);
        } else if ((bytes = status_bytes(line, "Rss:"))) {
            reader.rss = bytes;
        } else if ((bytes = status_bytes(line, "Anonymous:"))) {
            reader.unshared = bytes;
        } else if ((bytes = status_bytes(line, "AnonHugePages:"))) {
            add_resident(&out->huge, bytes);
        } else if ((bytes = status_bytes(line, "LazyFree:"))) {
            add_resident(&out->lazy_free, bytes);
        } else if ((bytes = status_bytes(line, "Swap:"))) {
            add_resident(&out->swap, bytes);
        }
    }
    close_mapping_part(&reader);
    return out->mappings > 0;
}

int resident_parts_read(const struct procfs *proc, pid_t pid, size_t limit,
                        const remote_addr *pointers, size_t count, struct resident_parts *out)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = procfs_slurp(proc, &text, limit, "%d/smaps", (int)pid);

    if (n < 0)
        return (int)n;
    return resident_parts_parse(text, (size_t)n, pointers, count, out) ? 0 : -ESRCH;
}
