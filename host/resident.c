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

/* One mapping, while its lines are read. */
struct part_reader {
    struct resident_parts *out;
    const remote_addr *pointers;
    size_t count;
    enum mapping_kind kind;
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
    case MAPPING_ANONYMOUS:
        add_resident(&out->anonymous, reader->rss);
        break;
    case MAPPING_HEAP:
        add_resident(&out->heap, reader->rss);
        break;
    case MAPPING_STACK:
        add_resident(&out->stacks, reader->rss);
        break;
    case MAPPING_FILE:
    case MAPPING_HUGE:
    case MAPPING_SPECIAL:
        add_resident(&out->written, private);
        add_resident(&out->files, rest);
        break;
    case MAPPING_SHARED:
        add_resident(&out->written, private);
        add_resident(&out->shared, rest);
        break;
    case MAPPING_DEVICE:
        add_resident(&out->written, private);
        add_resident(&out->devices, rest);
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

enum mapping_kind mapping_kind(const struct map_entry *entry)
{
    static const struct {
        const char *begin;
        enum mapping_kind kind;
    } names[] = {
        {"[heap]", MAPPING_HEAP},          {"[stack", MAPPING_STACK}, /* [stack:TID] before 4.5 */
        {"[anon_shmem:", MAPPING_SHARED},  {"[v", MAPPING_SPECIAL},
        {"[", MAPPING_ANONYMOUS}, /* [anon:NAME] */
        {"/anon_hugepage", MAPPING_HUGE},  {"/memfd:hugetlb", MAPPING_HUGE},
        {"/dev/hugepages/", MAPPING_HUGE}, {"/dev/shm/", MAPPING_SHARED},
        {"/memfd:", MAPPING_SHARED},       {"/SYSV", MAPPING_SHARED},
        {"/dev/zero", MAPPING_SHARED},     {"/dev/", MAPPING_DEVICE},
        {"/[aio]", MAPPING_DEVICE},        {"/dmabuf:", MAPPING_DEVICE},
        {"anon_inode:", MAPPING_DEVICE},   {"socket:", MAPPING_DEVICE},
    };
    const struct cursor path = cursor_of(entry->path, entry->path_len);

    /* A private mapping of it is how anonymous memory was once made. */
    if (cursor_begins(path, "/dev/zero") && !(entry->prot & MAP_SHARED_))
        return MAPPING_ANONYMOUS;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (cursor_begins(path, names[i].begin))
            return names[i].kind;
    return entry->inode || entry->path_len ? MAPPING_FILE : MAPPING_ANONYMOUS;
}

static void open_mapping_part(struct part_reader *reader, const struct map_entry *entry)
{
    reader->out->mappings++;
    reader->kind = mapping_kind(entry);
    if (reader->kind == MAPPING_ANONYMOUS && has_stack(reader, entry)) {
        reader->kind = MAPPING_STACK;
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
