#include "run/grow/grow_pages.h"
#include "base/list.h"
#include "base/search.h"
#include "elf/modules.h"
#include "host/resident.h"
#include "host/task.h"
#include "run/faults.h"

#include <errno.h>
#include <string.h>

/* Address space that is read where the kernel cannot pass over what is empty. */
#define READ_MOST ((uint64_t)256 << 30)

/* ---- mappings ---- */

static enum grow_kind kind_of_map(const struct map_entry *entry)
{
    const bool shared = entry->prot & MAP_SHARED_;

    switch (mapping_kind(entry)) {
    case MAPPING_ANONYMOUS:
        return GROW_MAPPED;
    case MAPPING_HEAP:
        return GROW_LIBC;
    case MAPPING_STACK:
        return GROW_STACKS;
    case MAPPING_SHARED:
        return shared ? GROW_SHARED : GROW_DATA;
    case MAPPING_HUGE:
        return GROW_HUGE;
    case MAPPING_SPECIAL:
        return GROW_FILES;
    case MAPPING_FILE:
    case MAPPING_DEVICE:
        break;
    }
    return shared ? GROW_FILES : GROW_DATA;
}

static fault_code load_ranges(struct grow_pages *pages, const struct target *target,
                              struct fault *fault)
{
    AUTO_FREE char *text = NULL;
    struct map_entry entry;
    struct cursor rest;
    size_t len;
    int found;
    fault_code rc = modules_read_maps(target, &text, &len, fault);

    if (rc != FAULT_NONE)
        return rc;
    pages->range_count = 0;
    rest = cursor_of(text, len);
    while ((found = parse_map_line(&rest, &entry))) {
        if (found < 0 || entry.start >= entry.end ||
            (pages->range_count && entry.start < pages->ranges[pages->range_count - 1].end))
            continue;
        if (!LIST_GROW(pages->ranges, pages->range_capacity, pages->range_count))
            return fault_set(fault, FAULT_INTERNAL, ENOMEM, "read maps", "the mappings");
        pages->ranges[pages->range_count++] =
            (struct grow_range){entry.start, entry.end, kind_of_map(&entry),
                                !(entry.prot & (MAP_READ | MAP_WRITE | MAP_EXEC))};
    }
    free(pages->maps);
    pages->maps = steal_ptr(&text);
    pages->maps_len = len;
    return FAULT_NONE;
}

static const struct grow_range *find_range(const struct grow_range *list, size_t count,
                                           remote_addr addr)
{
    size_t low = SEARCH_FIRST(i, count, addr < list[i].end);

    return low < count && list[low].start <= addr ? &list[low] : NULL;
}

const struct grow_range *grow_pages_range(const struct grow_pages *pages, remote_addr addr)
{
    return find_range(pages->ranges, pages->range_count, addr);
}

enum grow_kind grow_pages_kind(const struct grow_pages *pages, remote_addr addr)
{
    const struct grow_range *range = grow_pages_range(pages, addr);

    if (!range)
        range = find_range(pages->former, pages->former_count, addr);
    return range ? range->kind : GROW_MAPPED;
}

bool grow_pages_keep_former(struct grow_pages *pages)
{
    free(pages->former);
    pages->former = calloc(pages->range_count + 1, sizeof *pages->former);
    pages->former_count = pages->former ? pages->range_count : 0;
    if (pages->former_count)
        memcpy(pages->former, pages->ranges, pages->range_count * sizeof *pages->former);
    return pages->former != NULL;
}

uint64_t grow_pages_only_touched(const struct grow_pages *pages)
{
    uint64_t touched = 0;

    for (size_t i = 0; i < pages->count; i++) {
        const struct grow_piece *piece = &pages->list[i];
        for (size_t word = 0; word < PAGEMAP_WORDS; word++)
            for (uint64_t left = grow_piece_gained(piece, word); left; left &= left - 1) {
                remote_addr addr =
                    piece->start + (word * 64 + (size_t)__builtin_ctzll(left)) * pages->map.page;
                const struct grow_range *range =
                    find_range(pages->former, pages->former_count, addr);
                touched += range && range->kind == GROW_SHARED;
            }
    }
    return touched;
}

/* As host/resident.c: a stack lies above guard pages, the heap of a Go program does not. */
static bool lies_on_guard(const struct grow_pages *pages, const struct grow_range *range)
{
    return range > pages->ranges && range[-1].guard && range[-1].end == range->start;
}

void grow_pages_mark_stack(struct grow_pages *pages, remote_addr sp)
{
    const struct grow_range *range = grow_pages_range(pages, sp);

    if (range && range->kind == GROW_MAPPED && lies_on_guard(pages, range))
        pages->ranges[range - pages->ranges].kind = GROW_STACKS;
}

bool grow_pages_mark_stacks(struct grow_pages *pages, const struct target *target,
                            const struct deadline *deadline)
{
    struct task_dir dir;
    char text[256];
    pid_t tid = 0;

    if (task_dir_of_threads(&dir, target->proc, target->pid) == 0)
        while ((tid = task_dir_next(&dir)) && !deadline_passed(deadline)) {
            struct proc_syscall asleep;
            ssize_t n = procfs_read(target->proc, text, sizeof text, "%d/task/%d/syscall",
                                    (int)target->pid, (int)tid);
            if (n > 0 && parse_syscall(text, (size_t)n, &asleep) && asleep.asleep)
                grow_pages_mark_stack(pages, asleep.sp);
        }
    task_dir_close(&dir);
    return tid == 0;
}

/* A thread may be running at the last look, and its stack be known only from the first one. */
void grow_pages_recall_stacks(struct grow_pages *pages)
{
    for (size_t i = 0; i < pages->former_count; i++) {
        const struct grow_range *was = &pages->former[i];
        const struct grow_range *is = grow_pages_range(pages, was->end - 1);
        if (was->kind == GROW_STACKS && is && is->kind == GROW_MAPPED && is->end == was->end &&
            lies_on_guard(pages, is))
            pages->ranges[is - pages->ranges].kind = GROW_STACKS;
    }
}

/* ---- parts of mappings ---- */

struct splitting {
    struct grow_range *list;
    size_t count, capacity;
};

static bool put_part(struct splitting *out, const struct grow_range *range, remote_addr start,
                     remote_addr end, enum grow_kind kind)
{
    if (start >= end)
        return true;
    if (!LIST_GROW(out->list, out->capacity, out->count))
        return false;
    out->list[out->count++] = (struct grow_range){start, end, kind, range->guard};
    return true;
}

static bool split_range(struct splitting *out, const struct grow_range *range,
                        const struct grow_range *parts, size_t count, size_t *at)
{
    bool splits = range->kind == GROW_MAPPED || range->kind == GROW_LIBC, good = true;
    remote_addr start = range->start;

    while (*at < count && parts[*at].end <= start)
        ++*at;
    for (size_t i = *at; splits && good && i < count && parts[i].start < range->end; i++) {
        remote_addr from = parts[i].start > start ? parts[i].start : start,
                    end = parts[i].end < range->end ? parts[i].end : range->end;
        good = put_part(out, range, start, from, range->kind) &&
               put_part(out, range, from, end, parts[i].kind);
        start = end;
    }
    return good && put_part(out, range, start, range->end, range->kind);
}

bool grow_pages_split(struct grow_pages *pages, const struct grow_range *parts, size_t count)
{
    struct splitting out = {.list = NULL};
    bool good = true;
    size_t at = 0;

    for (size_t i = 0; i < pages->range_count && good; i++)
        good = split_range(&out, &pages->ranges[i], parts, count, &at);
    if (!good) {
        free(out.list);
        return false;
    }
    free(pages->ranges);
    pages->ranges = out.list;
    pages->range_count = out.count;
    pages->range_capacity = out.capacity;
    return true;
}

/* ---- pieces ---- */

static const struct grow_piece *find_grow_piece(const struct grow_piece *list, size_t count,
                                                remote_addr start)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && list[low].start == start ? &list[low] : NULL;
}

const struct grow_piece *grow_pages_piece(const struct grow_pages *pages, remote_addr addr)
{
    return find_grow_piece(pages->list, pages->count,
                           addr - addr % pagemap_piece_bytes(&pages->map));
}

/* Finds the piece among those before the look, or as the last one that the look has added. */
static struct grow_piece *piece_for(struct grow_pages *pages, remote_addr start)
{
    const struct grow_piece *found = find_grow_piece(pages->list, pages->sorted, start);

    if (found)
        return &pages->list[found - pages->list];
    if (pages->count > pages->sorted && pages->list[pages->count - 1].start == start)
        return &pages->list[pages->count - 1];
    if (pages->count >= GROW_PIECES_MAX || !LIST_GROW(pages->list, pages->capacity, pages->count))
        return NULL;
    pages->list[pages->count] = (struct grow_piece){.start = start, .look = pages->looks};
    return &pages->list[pages->count++];
}

/*
 * now has the pages of the look before until the first part of this look comes: two
 * mappings can share a piece.
 */
static bool see_piece(void *ctx, const struct pagemap_piece *seen)
{
    struct grow_pages *pages = ctx;
    struct grow_piece *piece = piece_for(pages, seen->start);
    bool again = piece && piece->look == pages->looks;

    pages->cut = deadline_is_over(pages->deadline);
    if (pages->cut)
        return false;
    if (!piece) {
        pages->too_many = true;
        return false;
    }
    piece->look = pages->looks;
    if (!pages->map.files)
        pages->huge_now += seen->huge;
    for (size_t i = 0; i < PAGEMAP_WORDS; i++) {
        uint64_t there = seen->resident[i] | seen->swapped[i], before = piece->now[i];
        pages->swap_now += (uint64_t)__builtin_popcountll(seen->swapped[i]);
        piece->now[i] = again ? before | there : there;
        if (pages->looks == 0)
            piece->first[i] |= there;
        /* Pages that were not there at the look before are born. */
        uint64_t fresh = there & ~before & ~piece->first[i];
        if (fresh && !piece->born && !(piece->born = calloc(PAGEMAP_PIECE, 1)))
            return false;
        for (; fresh; fresh &= fresh - 1)
            piece->born[i * 64 + (size_t)__builtin_ctzll(fresh)] = (unsigned char)pages->looks;
    }
    return true;
}

static int pieces_in_order(const void *a, const void *b)
{
    const struct grow_piece *x = a, *y = b;

    return x->start < y->start ? -1 : x->start > y->start;
}

static void sort_pieces(struct grow_pages *pages)
{
    if (pages->count > pages->sorted && pages->sorted)
        qsort(pages->list, pages->count, sizeof *pages->list, pieces_in_order);
    pages->sorted = pages->count;
}

static int visit_ranges(struct grow_pages *pages)
{
    uint64_t read = 0;
    int err = 0;

    pages->unread = 0;
    for (size_t i = 0; i < pages->range_count && !err; i++) {
        const struct grow_range *range = &pages->ranges[i];
        uint64_t bytes = range->end - range->start;
        if (range->kind == GROW_FILES)
            continue;
        if (!pages->map.scans && bytes > READ_MOST - read) {
            pages->unread += bytes;
            continue;
        }
        read += bytes;
        pages->map.files = !grow_kind_is_private(range->kind);
        err = pagemap_visit(&pages->map, range->start, range->end, see_piece, pages);
    }
    return err == -ECANCELED ? 0 : err;
}

fault_code grow_pages_open(struct grow_pages *pages, const struct target *target,
                           struct fault *fault)
{
    int err;

    memset(pages, 0, sizeof *pages);
    err = pagemap_open(&pages->map, target->proc, target_via(target));
    if (!err)
        return FAULT_NONE;
    if (err == -EACCES || err == -EPERM)
        return fault_set(fault, FAULT_DENIED, -err, "open", "pagemap");
    if (err == -ENOENT && target_check(target, NULL) == FAULT_NONE) /* CONFIG_PROC_PAGE_MONITOR */
        return fault_set(fault, FAULT_UNSUPPORTED, ENOENT, "open", "pagemap");
    return fault_set(fault, err == -ENOENT || err == -ESRCH ? FAULT_GONE : FAULT_INTERNAL, -err,
                     "open", "pagemap");
}

void grow_pages_close(struct grow_pages *pages)
{
    pagemap_close(&pages->map);
    for (size_t i = 0; i < pages->count; i++)
        free(pages->list[i].born);
    free(pages->list);
    free(pages->ranges);
    free(pages->former);
    free(pages->maps);
    pages->list = NULL;
    pages->ranges = pages->former = NULL;
    pages->maps = NULL;
    pages->count = pages->range_count = pages->former_count = 0;
}

/* Without memory, a process shows no pages: that is not what it has given back. */
static fault_code check_memory(const struct grow_pages *pages, const struct target *target,
                               const struct memory *memory, struct fault *fault)
{
    char text[8];
    ssize_t n = procfs_read(target->proc, text, sizeof text, "%d/maps", (int)target_via(target));

    if (n <= 0)
        return fault_set(fault, FAULT_GONE, ESRCH, "read maps", "%d", (int)target->pid);
    if (!memory_is_same(memory, pages->anchor))
        return fault_set(fault, FAULT_EXECED, 0, "read pagemap", "%d", (int)target->pid);
    return FAULT_NONE;
}

static fault_code visit_pages(struct grow_pages *pages, const struct target *target,
                              const struct memory *memory, struct fault *fault)
{
    int err;

    pages->sorted = pages->count;
    pages->huge_now = pages->swap_now = 0;
    pages->cut = false;
    err = visit_ranges(pages);
    if (pages->cut) {
        /* What a look has seen that did not come to its end is seen again by the next. */
        for (size_t i = 0; i < pages->count; i++)
            if (pages->list[i].look == pages->looks)
                pages->list[i].look = GROW_LOOKS_MAX;
        sort_pieces(pages);
        if (deadline_interrupted(pages->deadline))
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "read", "pagemap");
        return fault_set(fault, FAULT_TOO_LATE, ETIMEDOUT, "read", "pagemap");
    }
    if (err)
        return fault_set(fault, err == -ESRCH ? FAULT_GONE : FAULT_INTERNAL, -err, "read",
                         "pagemap");
    return check_memory(pages, target, memory, fault);
}

static uint64_t cpu_time(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

fault_code grow_pages_look(struct grow_pages *pages, const struct target *target,
                           const struct memory *memory, const struct deadline *deadline,
                           struct fault *fault)
{
    uint64_t began = clock_now(), cpu = cpu_time();
    fault_code rc = check_memory(pages, target, memory, fault);

    pages->deadline = deadline;
    if (rc == FAULT_NONE)
        rc = load_ranges(pages, target, fault);
    if (rc == FAULT_NONE)
        rc = visit_pages(pages, target, memory, fault);
    if (rc != FAULT_NONE)
        return rc;
    /* Pieces that the look has not come to have no pages any more. */
    sort_pieces(pages);
    pages->lost[pages->looks] = 0;
    for (size_t i = 0; i < pages->count; i++) {
        struct grow_piece *piece = &pages->list[i];
        if (piece->look != pages->looks)
            memset(piece->now, 0, sizeof piece->now);
        for (size_t word = 0; word < PAGEMAP_WORDS; word++) {
            const uint64_t lost = piece->first[word] & ~piece->now[word];
            if (!lost)
                continue;
            /* Pages of the process alone. Few words are of two kinds. */
            const uint64_t page = word * 64 + (uint64_t)__builtin_ctzll(lost);
            if (grow_kind_is_private(grow_pages_kind(pages, piece->start + page * pages->map.page)))
                pages->lost[pages->looks] += (uint64_t)__builtin_popcountll(lost);
        }
    }
    /* Counts the look that began then. */
    uint64_t took = clock_now() - began;
    if (pages->looks == 0) {
        pages->huge_first = pages->huge_now;
        pages->swap_first = pages->swap_now;
    }
    pages->began_ns[pages->looks++] = began;
    if (took > pages->longest_ns)
        pages->longest_ns = took;
    pages->spent_ns += cpu_time() - cpu;
    return FAULT_NONE;
}
