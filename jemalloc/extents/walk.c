#include "jemalloc/extents/walk.h"
#include "base/table.h"

enum { READ_PAGES = 16, PIECE_PAGES = 512, PIECE = PIECE_PAGES * MEMORY_PAGE };

static bool visit_leaf_entries(struct walk *walk, remote_addr addr, const unsigned char *bytes,
                               size_t count)
{
    const struct tree_shape *shape = walk->tree->shape;
    struct leaf leaf;

    for (size_t i = 0; i < count; i++) {
        tree_take_leaf(&leaf, shape, walk->rules->layout, bytes + i * shape->entry);
        if (leaf.record == walk->last || !leaf.record)
            continue;
        walk->last = leaf.record;
        if ((walk->unused || leaf_in_use(&leaf, walk->rules)) &&
            !walk->visit(walk->ctx, addr + i * MEMORY_PAGE, &leaf))
            return false;
    }
    return true;
}

static bool is_chosen(const struct walk *walk, remote_addr page)
{
    return walk->below == UINT64_MAX || table_mix(page ^ walk->seed) < walk->below;
}

/* Clears the pages that are not wanted, and counts. */
static void choose_pages(struct walk *walk, remote_addr first, bool *has, size_t pages)
{
    for (size_t i = 0; i < pages; i++) {
        walk->pages += has[i];
        has[i] = has[i] && walk->visit && is_chosen(walk, first + i * MEMORY_PAGE);
        walk->read += has[i];
    }
}

/* Entries of one piece of a leaf, page by page as far as neighbours are not wanted, too. */
static bool visit_leaf_piece(struct walk *walk, remote_addr addr, remote_addr at, size_t bytes)
{
    const unsigned entry = walk->tree->shape->entry;
    const remote_addr first = at - at % MEMORY_PAGE;
    const size_t pages = (at + bytes - first + MEMORY_PAGE - 1) / MEMORY_PAGE;
    unsigned char buf[READ_PAGES * MEMORY_PAGE];
    bool has[PIECE_PAGES + 1];

    residence_of(&walk->heap->residence, first, has, pages);
    choose_pages(walk, first, has, pages);
    for (size_t i = 0, to; i < pages; i = to) {
        remote_addr from = i ? first + i * MEMORY_PAGE : at, end;
        for (to = i + 1; to < pages && has[to] == has[i] && (!has[i] || to < i + READ_PAGES);)
            to++;
        end = to < pages ? first + to * MEMORY_PAGE : at + bytes;
        if (has[i] && memory_read(walk->heap->source->memory, from, buf, end - from) &&
            !visit_leaf_entries(walk, addr + (from - at) / entry * MEMORY_PAGE, buf,
                                (end - from) / entry))
            return false;
    }
    return true;
}

/* The pieces end with a page of the tree, so that none is chosen twice. */
static bool visit_leaf(struct walk *walk, remote_addr addr, remote_addr at, size_t bytes)
{
    const unsigned entry = walk->tree->shape->entry;

    for (size_t done = 0, n; done < bytes; done += n) {
        n = PIECE - (at + done) % MEMORY_PAGE;
        if (n > bytes - done)
            n = bytes - done;
        if (pages_is_late(walk->heap) ||
            !visit_leaf_piece(walk, addr + done / entry * MEMORY_PAGE, at + done, n))
            return false;
    }
    return true;
}

bool walk_range(struct walk *walk, remote_addr start, remote_addr end)
{
    const unsigned entry = walk->tree->shape->entry;

    for (remote_addr addr = start, next; addr < end; addr = next) {
        remote_addr at = tree_entry(walk->tree, walk->heap, addr, &next);
        if (next > end || next <= addr)
            next = end;
        if (pages_is_late(walk->heap))
            return false;
        if (at && !visit_leaf(walk, addr, at, (size_t)((next - addr) / MEMORY_PAGE * entry)))
            return false;
    }
    return true;
}

bool walk_heap(struct walk *walk)
{
    const struct modules *modules = walk->heap->source->modules;

    for (size_t i = 0; i < modules->vma_count; i++) {
        const struct vma *vma = &modules->vmas[i];
        if ((vma->prot & MAP_WRITE || walk->unused) && vma->module < 0 &&
            !walk_range(walk, vma->start, vma->end))
            return false;
    }
    return true;
}
