#include "jemalloc/extents/heap_pages.h"
#include "elf/image.h"

#include <string.h>

enum { PIECE_BYTES = 256 << 10, SEGMENTS_MAX = 1 << 30, STATES = 512 };

void pages_open(struct heap_pages *heap, const struct reader_source *source)
{
    const struct target *target = source->target;

    heap->source = source;
    heap->map = (struct pagemap){.fd = -1, .page = (unsigned)sysconf(_SC_PAGESIZE)};
    if (!target->record && target->proc->dirfd >= 0)
        pagemap_open(&heap->map, target->proc, target_via(target));
}

void pages_close(struct heap_pages *heap)
{
    pagemap_close(&heap->map);
}

size_t pages_contents(const struct heap_pages *heap, remote_addr start, bool *has, size_t count)
{
    const unsigned page = heap->map.page;
    enum page_state states[STATES];
    size_t with = 0;

    for (size_t at = 0, n; at < count; at += n, start += n * MEMORY_PAGE) {
        const uint64_t first = start / page;
        n = count - at < STATES ? count - at : STATES;
        pagemap_states(&heap->map, start, states,
                       (start + (n - 1) * MEMORY_PAGE) / page - first + 1);
        /* What the file does not tell about has contents, as far as is known. */
        for (size_t i = 0; i < n; i++) {
            has[at + i] = states[(start + i * MEMORY_PAGE) / page - first] != PAGE_EMPTY;
            with += has[at + i];
        }
    }
    return with;
}

bool pages_is_heap(const struct heap_pages *heap, remote_addr addr, uint64_t len)
{
    const struct vma *vma = modules_vma_at(heap->source->modules, addr);

    return vma && vma->prot & MAP_WRITE && vma->module < 0 && len <= vma->end - addr;
}

bool pages_is_late(const struct heap_pages *heap)
{
    const struct deadline *deadline = heap->source->deadline;

    return deadline && deadline_is_over(deadline);
}

/* --- reading --- */

/* Reads as many pages as agree on having contents. Returns the bytes. */
static size_t read_alike(const struct heap_pages *heap, remote_addr addr, unsigned char *buf,
                         size_t len, const bool *has)
{
    size_t pages = 1, n;

    while (has[pages] == has[0] && pages * MEMORY_PAGE - addr % MEMORY_PAGE < len)
        pages++;
    n = pages * MEMORY_PAGE - addr % MEMORY_PAGE;
    if (n > len)
        n = len;
    if (has[0])
        memory_read_pages(heap->source->memory, addr, buf, n);
    else
        memset(buf, 0, n);
    return n;
}

void pages_read(const struct heap_pages *heap, remote_addr addr, unsigned char *buf, size_t len)
{
    enum { PAGES = 64 };
    bool has[PAGES + 2];

    for (size_t at = 0, end; at < len; at = end) {
        remote_addr from = addr + at, first = from - from % MEMORY_PAGE;
        size_t pages = (from % MEMORY_PAGE + (len - at) + MEMORY_PAGE - 1) / MEMORY_PAGE;
        if (pages > PAGES)
            pages = PAGES;
        pages_contents(heap, first, has, pages);
        end = at + pages * MEMORY_PAGE - from % MEMORY_PAGE;
        if (end > len)
            end = len;
        for (size_t in = at; in < end;) {
            size_t page = (addr + in - first) / MEMORY_PAGE;
            has[pages] = !has[pages - 1];
            in += read_alike(heap, addr + in, buf + in, end - in, has + page);
        }
    }
}

/* --- the segments --- */

struct segments_visit {
    const struct heap_pages *heap;
    size_t overlap;
    pages_visit visit;
    void *ctx;
    unsigned char *buf;
};

static bool visit_segment(const struct segments_visit *all, remote_addr start, uint64_t size)
{
    bool has[PIECE_BYTES / MEMORY_PAGE + 2];

    for (uint64_t at = 0; at < size && (!at || at + all->overlap < size); at += PIECE_BYTES) {
        const remote_addr from = start + at, first = from - from % MEMORY_PAGE;
        uint64_t n = size - at, fresh = n < PIECE_BYTES ? n : PIECE_BYTES;
        if (n > PIECE_BYTES + all->overlap)
            n = PIECE_BYTES + all->overlap;
        if (pages_is_late(all->heap))
            return false;
        if (!pages_contents(all->heap, first, has,
                            (from + fresh - first + MEMORY_PAGE - 1) / MEMORY_PAGE))
            continue;
        pages_read(all->heap, from, all->buf, (size_t)n);
        if (!all->visit(all->ctx, from, all->buf, (size_t)n))
            return false;
    }
    return true;
}

static bool open_image(const struct heap_pages *heap, struct image *image)
{
    return image_open(image, heap->source->memory, heap->source->instance->module.start);
}

void pages_segments(const struct heap_pages *heap, bool writable, size_t overlap, pages_visit visit,
                    void *ctx)
{
    AUTO_FREE unsigned char *buf = malloc(PIECE_BYTES + overlap);
    const struct segments_visit all = {heap, overlap, visit, ctx, buf};
    struct image image;
    uint64_t left = SEGMENTS_MAX;

    if (!buf || !open_image(heap, &image))
        return;
    for (size_t i = 0; i < image.phdr_count; i++) {
        const Elf64_Phdr *ph = &image.phdrs[i];
        remote_addr start = (ph->p_vaddr + image.bias + 7) & ~(remote_addr)7;
        if (ph->p_type != PT_LOAD || (bool)(ph->p_flags & PF_W) != writable || ph->p_memsz > left)
            continue;
        left -= ph->p_memsz;
        if (!visit_segment(&all, start, ph->p_memsz))
            return;
    }
}

bool pages_data_range(const struct heap_pages *heap, struct memory_range *range)
{
    struct image image;

    *range = (struct memory_range){UINT64_MAX, 0};
    if (!open_image(heap, &image))
        return false;
    for (size_t i = 0; i < image.phdr_count; i++) {
        const Elf64_Phdr *ph = &image.phdrs[i];
        remote_addr start = ph->p_vaddr + image.bias;
        if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_W) || start + ph->p_memsz < start)
            continue;
        if (start < range->start)
            range->start = start;
        if (start + ph->p_memsz > range->end)
            range->end = start + ph->p_memsz;
    }
    return range->start < range->end;
}
