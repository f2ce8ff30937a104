#include "run/grow/grow_kinds.h"
#include "base/list.h"
#include "jemalloc/extents/extents.h"
#include "run/explain/heap_kind.h"
#include "run/faults.h"

#include <errno.h>
#include <string.h>

#define EXTENTS_LIMIT ((uint64_t)32 << 30) /* of memory whose records are read */

enum { POOLS_MAX = 1 << 19 /* of 16 KiB: 8 GiB; half a second */ };

/* Parts of mappings that have been found, of one owner. */
struct parts {
    struct grow_range *list;
    size_t count, capacity;
    enum grow_kind kind;
    bool no_memory;
};

/* Nearly in the order of addresses: some come twice. */
static bool put_owned(struct parts *parts, remote_addr start, remote_addr end)
{
    struct grow_range *last = parts->count ? &parts->list[parts->count - 1] : NULL;

    if (last && start >= last->start && start <= last->end) {
        if (end > last->end)
            last->end = end;
        return true;
    }
    if (!LIST_GROW(parts->list, parts->capacity, parts->count))
        return !(parts->no_memory = true);
    parts->list[parts->count++] =
        (struct grow_range){.start = start, .end = end, .kind = parts->kind};
    return true;
}

/* ---- jemalloc ---- */

static bool add_extent_part(void *ctx, const struct extent *extent)
{
    const remote_addr start = extent->start - extent->start % MEMORY_PAGE;

    return put_owned(ctx, start, start + extent->bytes);
}

static bool tell_extent_size(void *ctx, const struct extent *extent)
{
    grow_sites_tell_size(ctx, extent->start - extent->start % MEMORY_PAGE,
                         extent->start + extent->bytes, extent->size);
    return true;
}

/* In the mappings of the last look, with new ones. False: jemalloc is unknown. */
static bool find_extent_parts(struct parts *parts, const struct grow_pages *pages,
                              struct grow_sites *sites, struct attachment *attachment,
                              const struct deadline *deadline)
{
    struct extents_pass pass = {.limit = EXTENTS_LIMIT};
    struct modules modules;
    struct instance instance = attachment->instance;
    const struct reader_source source = {.instance = &instance,
                                         .modules = &modules,
                                         .target = &attachment->target,
                                         .memory = &attachment->memory,
                                         .deadline = deadline};
    struct extents *extents = NULL;
    struct fault fault, ignored;
    fault_code rc;

    if (!modules_parse(&modules, pages->maps, pages->maps_len))
        return !(parts->no_memory = true);
    /* The one that was chosen; or a library that was loaded since. */
    rc = instance.mallctl
             ? FAULT_NONE
             : instance_find(&instance, &modules, source.target, source.memory, &fault);
    instance.module.path = instance.path;
    if (rc == FAULT_NONE)
        rc = extents_open(&extents, &source, &fault);
    if (rc == FAULT_NONE)
        rc = extents_each_range(extents, EXTENTS_LIMIT, add_extent_part, parts, &fault);
    if (rc == FAULT_NONE && sites->sample_count) /* without the sizes there are still the parts */
        extents_each(extents, tell_extent_size, sites, &pass, &ignored);
    extents_close(extents);
    modules_free(&modules);
    if (rc != FAULT_NONE)
        parts->count = 0;
    return rc == FAULT_NONE || rc == FAULT_NO_ALLOCATOR;
}

/* ---- heads in memory ---- */

static uint64_t head_word(const unsigned char *head, size_t at)
{
    uint64_t word;

    memcpy(&word, head + at, sizeof word);
    return word;
}

static uint32_t head_half(const unsigned char *head, size_t at)
{
    uint32_t half;

    memcpy(&half, head + at, sizeof half);
    return half;
}

/*
 * ar_ptr, prev, size, mprotect_size: the first heap of an arena has the arena itself right
 * behind its head, a further one leads to it and to the heap before.
 */
bool glibc_heap_take(const unsigned char head[GLIBC_HEAD], remote_addr addr, uint64_t *used)
{
    const uint64_t arena = head_word(head, 0), former = head_word(head, 8),
                   size = head_word(head, 16), writable = head_word(head, 24);
    const uint64_t behind = arena % GLIBC_HEAP;

    *used = writable;
    return size && size <= writable && writable <= GLIBC_HEAP && writable % MEMORY_PAGE == 0 &&
           behind >= GLIBC_HEAD && behind <= 4 * GLIBC_HEAD && former % GLIBC_HEAP == 0 &&
           (arena - behind == addr ? former == 0 : former != 0 && arena != 0);
}

/*
 * ref.count, freeblock, nextpool, prevpool, arenaindex, szidx, nextoffset, maxnextoffset. The
 * last one is the size of the pool less that of a block, which is 8 or 16 times szidx + 1.
 */
bool python_pool_take(const unsigned char head[PYTHON_HEAD], remote_addr addr, uint64_t *size)
{
    const uint64_t count = head_half(head, 0), freed = head_word(head, 8),
                   next = head_word(head, 16), before = head_word(head, 24),
                   class = head_half(head, 36), offset = head_half(head, 40),
                   most = head_half(head, 44);

    *size = most > PYTHON_POOL_OLD ? PYTHON_POOL : PYTHON_POOL_OLD;
    for (unsigned unit = 16; unit >= 8; unit /= 2) {
        const uint64_t block = (class + 1) * unit;
        if (class < 64 && block <= 512 && most + block == *size && addr % *size == 0 &&
            offset >= PYTHON_HEAD && offset <= *size && count * block + PYTHON_HEAD <= *size &&
            (!freed || (freed > addr && freed < addr + *size)) && (next || before))
            return true;
    }
    return false;
}

/* True if the page was in memory at the last look: to read another one would change it. */
static bool is_in_memory(const struct grow_pages *pages, remote_addr addr)
{
    const struct grow_piece *piece = grow_pages_piece(pages, addr);
    size_t page = piece ? (size_t)((addr - piece->start) / pages->map.page) : 0;
    enum page_state state;

    if (!piece || !(piece->now[page / 64] >> page % 64 & 1))
        return false;
    pagemap_states(&pages->map, addr, &state, 1);
    return state == PAGE_PRESENT;
}

/* ---- glibc ---- */

static void find_heap_parts(struct parts *parts, const struct grow_pages *pages,
                            struct memory *memory)
{
    unsigned char head[GLIBC_HEAD];
    uint64_t used;

    for (size_t i = 0; i < pages->range_count; i++) {
        const struct grow_range *range = &pages->ranges[i];
        remote_addr at = range->start + (GLIBC_HEAP - range->start % GLIBC_HEAP) % GLIBC_HEAP;
        if (range->kind != GROW_MAPPED || range->guard)
            continue;
        for (; at >= range->start && at < range->end; at += GLIBC_HEAP)
            if (is_in_memory(pages, at) && memory_read(memory, at, head, sizeof head) &&
                glibc_heap_take(head, at, &used))
                put_owned(parts, at, at + used < range->end ? at + used : range->end);
    }
}

/* ---- CPython ---- */

struct pools {
    struct parts *parts;
    struct memory *memory;
    size_t seen;
    uint64_t step; /* bytes between two pools, at least */
};

/* False: there are too many. */
static bool look_at_pool(struct pools *pools, remote_addr addr)
{
    unsigned char head[PYTHON_HEAD];
    uint64_t size;

    if (memory_read(pools->memory, addr, head, sizeof head) &&
        python_pool_take(head, addr, &size)) {
        put_owned(pools->parts, addr, addr + size);
        if (size < pools->step)
            pools->step = size;
    }
    return ++pools->seen < POOLS_MAX;
}

/* A pool begins with its head, and a page of the pool is not there without that one. */
static bool add_piece_pools(struct pools *pools, const struct grow_pages *pages,
                            const struct grow_piece *piece)
{
    const struct grow_range *range = NULL;
    enum page_state states[PAGEMAP_PIECE];
    bool known = false;

    for (size_t page = 0; page < PAGEMAP_PIECE; page++) {
        remote_addr addr = piece->start + page * pages->map.page;
        if (addr % pools->step || !(piece->now[page / 64] >> page % 64 & 1))
            continue;
        if (!range || addr >= range->end)
            range = grow_pages_range(pages, addr);
        if (!range || range->kind != GROW_MAPPED)
            continue;
        if (!known)
            pagemap_states(&pages->map, piece->start, states, PAGEMAP_PIECE);
        known = true;
        if (states[page] == PAGE_PRESENT && !look_at_pool(pools, addr))
            return false;
    }
    return true;
}

/* ---- all of them ---- */

static int parts_in_order(const void *a, const void *b)
{
    const struct grow_range *x = a, *y = b;

    return (x->start > y->start) - (x->start < y->start);
}

static void make_disjoint(struct parts *parts)
{
    size_t kept = 0;

    if (parts->count)
        qsort(parts->list, parts->count, sizeof *parts->list, parts_in_order);
    for (size_t i = 0; i < parts->count; i++) {
        const struct grow_range part = parts->list[i];
        struct grow_range *last = kept ? &parts->list[kept - 1] : NULL;
        if (!last || part.start > last->end)
            parts->list[kept++] = part;
        else if (part.end > last->end)
            last->end = part.end;
    }
    parts->count = kept;
}

/* Splits by the parts of one owner, and begins those of the next one. */
static bool split_by(struct grow_pages *pages, struct parts *parts, enum grow_kind next)
{
    bool good;

    make_disjoint(parts);
    good = !parts->no_memory && grow_pages_split(pages, parts->list, parts->count);

    parts->count = 0;
    parts->kind = next;
    return good;
}

fault_code grow_kinds_find(struct grow_owners *owners, struct grow_pages *pages,
                           struct grow_sites *sites, struct attachment *attachment, unsigned kinds,
                           const struct deadline *deadline, struct fault *fault)
{
    struct parts parts = {.kind = GROW_JEMALLOC};
    bool good;

    *owners = (struct grow_owners){.jemalloc = false};
    owners->jemalloc = !find_extent_parts(&parts, pages, sites, attachment, deadline);
    good = split_by(pages, &parts, GROW_LIBC);
    find_heap_parts(&parts, pages, &attachment->memory);
    good = good && split_by(pages, &parts, GROW_PYMALLOC);
    if (kinds & 1u << HEAP_PYTHON) {
        struct pools pools = {.parts = &parts, .memory = &attachment->memory, .step = PYTHON_POOL};
        bool all = true;
        for (size_t i = 0; i < pages->count && all; i++) {
            bool old = pools.step == PYTHON_POOL_OLD;
            all = !deadline_passed(deadline) && add_piece_pools(&pools, pages, &pages->list[i]);
            /* Between those that were looked at are more. */
            if (!old && pools.step == PYTHON_POOL_OLD)
                all = all && add_piece_pools(&pools, pages, &pages->list[i]);
        }
        owners->pymalloc = !all;
    }
    good = good && split_by(pages, &parts, GROW_KINDS);
    free(parts.list);
    return good ? FAULT_NONE : fault_set(fault, FAULT_INTERNAL, ENOMEM, "share out", "the pages");
}
