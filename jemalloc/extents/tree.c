#include "jemalloc/extents/tree.h"
#include "base/table.h"
#include "jemalloc/extents/heap_pages.h"
#include "jemalloc/reader/layout.h"

#include <string.h>

#define V VERSION_NUMBER

enum {
    ARENA_BITS = 12, /* MALLOCX_ARENA_BITS */
    SLAB_SHIFT = ARENA_BITS,
    HUGE_PAGE_SHIFT = 14, /* pai, since 5.2.1-784 */
    CLASS_BITS = 8,
    FREE_BITS = 10, /* LG_SLAB_MAXREGS + 1 */
    ARENAS_END = (1 << ARENA_BITS) - 1,
    ADDRESS_AT = 8,
    SIZE_AT = 16,
    BITMAP_AT = 64,
    GROUPS = EXTENT_OBJECTS_MAX / 64,
};

enum { PAGE_BITS = 12, ADDRESS_BITS = 48, NODE_ALIGNED = 64, RECORD_ALIGNED = 64, STATE_BITS = 3 };

enum { READ_PAGES = 16, PIECE_PAGES = 512, PIECE = PIECE_PAGES * MEMORY_PAGE };

/* ---- the record ---- */

/*
 * Fields behind the slab bit: committed, zeroed, state (5.0); dumpable before zeroed
 * (5.0.1-56); pai and guarded, and a state of three bits, which the tree repeats (5.2.1-784).
 * Since 5.3.0-262 large objects may be of any number of pages.
 */
const struct record_layout record_layouts[] = {
    {V(5, 3, 0), 262, 17, 3, 20, 2, true},
    {V(5, 2, 1), 784, 17, 3, 20, 2, false},
    {V(5, 0, 1), 56, 16, 2, 18, 0, false},
    {V(5, 0, 0), 0, 15, 2, 17, 0, false},
};
const size_t record_layout_count = ARRAY_LEN(record_layouts);

const struct record_layout *record_layout_of(struct version version)
{
    for (size_t i = 0; i < record_layout_count; i++)
        if (version_since(version, record_layouts[i].first, record_layouts[i].commits))
            return &record_layouts[i];
    return NULL;
}

static unsigned field_of(uint64_t bits, unsigned shift, unsigned width)
{
    return (unsigned)(bits >> shift & ((UINT64_C(1) << width) - 1));
}

/* Free pages have a class behind the last (SC_NSIZES). */
bool leaf_in_use(const struct leaf *leaf, const struct record_rules *rules)
{
    return leaf->record && leaf->class < rules->classes->count &&
           (!leaf->slab || leaf->class < rules->classes->bins) &&
           (!rules->layout->leaf_state_shift || leaf->state == EXTENT_ACTIVE);
}

static bool take_slab(struct extent *extent, const struct extent_class *class, uint64_t bits,
                      unsigned free_shift, const unsigned char *bytes)
{
    unsigned unused = field_of(bits, free_shift, FREE_BITS);
    unsigned counted = 0;

    extent->objects = class->objects;
    if (extent->bytes != class->slab_bytes || extent->start % MEMORY_PAGE ||
        unused > class->objects)
        return false;
    for (unsigned i = 0; i < GROUPS; i++) {
        unsigned here = class->objects > i * 64 ? class->objects - i * 64 : 0;
        uint64_t all = here >= 64 ? UINT64_MAX : (UINT64_C(1) << here) - 1;
        uint64_t is_free = here ? reader_word(bytes, BITMAP_AT + i * 8) : 0;
        if (is_free & ~all)
            return false;
        counted += (unsigned)__builtin_popcountll(is_free);
        extent->bitmap[i] = ~is_free & all;
    }
    extent->used = class->objects - unused;
    return counted == unused;
}

/*
 * A sampled small object has an extent of its own, of more pages than it needs, and the class of
 * its size (arena_prof_promote). Others have a page more than their class (sz_large_pad), or none.
 */
static bool take_large(struct extent *extent, const struct record_rules *rules, unsigned class,
                       const unsigned char *bytes)
{
    const uint64_t page = rules->classes->page, size = rules->classes->list[class].size;

    extent->size = size;
    extent->objects = extent->used = 1;
    memcpy(extent->words, bytes + BITMAP_AT, sizeof extent->words);
    if (class < rules->classes->bins)
        return extent->bytes >= page;
    if (rules->layout->by_pages) {
        extent->size = extent->bytes - rules->padding;
        return extent->bytes > rules->padding && extent->size <= size &&
               extent->size > rules->classes->list[class - 1].size;
    }
    return extent->bytes == size || extent->bytes == size + page;
}

/*
 * The fields that every extent has, in use or free. False: it is none that has the page. An
 * extent that is active and has no class is cached by the allocator of huge pages (sec.c).
 */
bool record_take_range(struct extent *extent, const struct record_rules *rules, remote_addr page,
                       const unsigned char bytes[RECORD_BYTES])
{
    const uint64_t bits = reader_word(bytes, 0), mask = rules->classes->page - 1;
    const unsigned state = field_of(bits, rules->layout->state_shift, rules->layout->state_bits);
    remote_addr first;

    memset(extent, 0, sizeof *extent);
    extent->arena = field_of(bits, 0, ARENA_BITS);
    extent->slab = field_of(bits, SLAB_SHIFT, 1);
    extent->is_huge_page = rules->layout->leaf_state_shift && field_of(bits, HUGE_PAGE_SHIFT, 1);
    extent->state = state < EXTENT_STATES ? (enum extent_state)state : EXTENT_STATES;
    extent->start = reader_word(bytes, ADDRESS_AT);
    extent->bytes = reader_word(bytes, SIZE_AT) & ~mask;
    first = extent->start & ~mask;
    return extent->arena < ARENAS_END && page >= first && page - first < extent->bytes &&
           first + extent->bytes > first;
}

enum record_verdict record_take(struct extent *extent, const struct record_rules *rules,
                                const struct leaf *leaf, remote_addr page,
                                const unsigned char bytes[RECORD_BYTES])
{
    const unsigned shift = rules->layout->class_shift;
    const struct extent_class *class = &rules->classes->list[leaf->class];
    const uint64_t bits = reader_word(bytes, 0);
    const unsigned state = field_of(bits, rules->layout->state_shift, rules->layout->state_bits),
                   own_class = field_of(bits, shift, CLASS_BITS);
    bool valid;

    if (!record_take_range(extent, rules, page, bytes))
        return RECORD_FALSE;
    if (state != EXTENT_ACTIVE || own_class == rules->classes->count)
        return RECORD_FREE;
    if (extent->slab != leaf->slab || own_class != leaf->class)
        return RECORD_FALSE;
    extent->record = leaf->record;
    extent->class = leaf->class;
    extent->size = class->size;
    valid = leaf->slab ? take_slab(extent, class, bits, shift + CLASS_BITS, bytes)
                       : take_large(extent, rules, leaf->class, bytes);
    if (!valid)
        return RECORD_FALSE;
    return page == (extent->start & ~(rules->classes->page - 1)) ? RECORD_TRUE : RECORD_INNER;
}

/* ---- sampled objects ---- */

/*
 * Since 5.1.0-58 the time comes first (b664bd79), and since 5.2.1-636 the size that was asked
 * for is behind it (afa489c3).
 */
static const struct sampled_layout sampled_layouts[] = {
    {V(5, 2, 1), 636, .birth = 0, .asked = 1, .tctx = 2},
    {V(5, 1, 0), 58, .birth = 0, .asked = -1, .tctx = 1},
    {V(5, 0, 0), 0, .birth = -1, .asked = -1, .tctx = 0},
};

/* In a build for debugging since 5.3 the time has a second word (NSTIME_MAGIC). */
#define TIME_MAGIC UINT32_C(0xb8a9ce37)

const struct sampled_layout *sampled_layout_of(struct version version)
{
    for (size_t i = 0; i < ARRAY_LEN(sampled_layouts); i++)
        if (version_since(version, sampled_layouts[i].first, sampled_layouts[i].commits))
            return &sampled_layouts[i];
    return NULL;
}

bool sampled_take(struct sampled *sampled, const struct sampled_layout *layout,
                  const struct classes *classes, const struct extent *extent)
{
    const unsigned more = layout->asked > 0 && (uint32_t)extent->words[1] == TIME_MAGIC;
    const uint64_t *asked =
        layout->asked > 0 ? &extent->words[(unsigned)layout->asked + more] : NULL;

    *sampled = (struct sampled){.tctx = extent->words[(unsigned)layout->tctx + more]};
    if (extent->slab || sampled->tctx <= 1 || sampled->tctx % 8)
        return false;
    if (layout->birth >= 0)
        sampled->birth = extent->words[layout->birth];
    if (extent->class < classes->bins)
        return true;
    /*
     * No request of a large class is as small as the class before: the object was a small one,
     * and was freed (arena_prof_demote). That also leaves out objects that are aligned to more
     * than a page, and smaller than that class.
     */
    sampled->is_stale = asked && *asked <= classes->list[extent->class - 1].size;
    sampled->is_doubtful = true;
    return true;
}

/* ---- the tree ---- */

const struct tree_shape tree_shapes[TREE_SHAPES] = {
    {.levels = 2, .bits = 18, .entry = 8},
    {.levels = 3, .bits = 15, .entry = 16},
};

static unsigned shift_at(const struct tree_shape *shape, unsigned level)
{
    return PAGE_BITS + shape->bits * (shape->levels - 1 - level);
}

uint64_t tree_index(const struct tree_shape *shape, remote_addr addr, unsigned level)
{
    return addr >> shift_at(shape, level) & ((UINT64_C(1) << shape->bits) - 1);
}

remote_addr tree_entry(const struct tree *tree, const struct heap_pages *heap, remote_addr addr,
                       remote_addr *end)
{
    const struct tree_shape *shape = tree->shape;
    remote_addr at = tree->root;

    for (unsigned level = 0; level + 1 < shape->levels; level++) {
        const remote_addr from = at + 8 * tree_index(shape, addr, level);
        bool last = level + 2 == shape->levels, has;
        *end = ((addr >> shift_at(shape, level)) + 1) << shift_at(shape, level);
        uint64_t bytes = (last ? shape->entry : 8) * (UINT64_C(1) << shape->bits);
        if (!pages_contents(heap, from - from % MEMORY_PAGE, &has, 1) ||
            !memory_read(heap->source->memory, from, &at, sizeof at) || !at || at % NODE_ALIGNED ||
            !pages_is_heap(heap, at, bytes))
            return 0;
    }
    return at + shape->entry * tree_index(shape, addr, shape->levels - 1);
}

void tree_take_leaf(struct leaf *leaf, const struct tree_shape *shape,
                    const struct record_layout *layout, const unsigned char *bytes)
{
    const unsigned shift = layout->leaf_state_shift, states = (1 << STATE_BITS) - 1;
    uint64_t bits;
    uint32_t first, second;

    if (shape->entry == 8) {
        memcpy(&bits, bytes, sizeof bits);
        leaf->class = (unsigned)(bits >> ADDRESS_BITS);
        leaf->slab = bits & 1;
        leaf->state = shift ? (unsigned)(bits >> shift & states) : 0;
        leaf->record =
            bits & ((UINT64_C(1) << ADDRESS_BITS) - 1) & ~(remote_addr)(RECORD_ALIGNED - 1);
        return;
    }
    /* A pointer; then the class and a byte, or since 5.2.1-784 all in one word. */
    memcpy(&leaf->record, bytes, 8);
    memcpy(&first, bytes + 8, 4);
    memcpy(&second, bytes + 12, 4);
    leaf->class = shift ? first >> (shift + STATE_BITS) : first;
    leaf->slab = (shift ? first : second) & 1;
    leaf->state = shift ? first >> shift & states : 0;
    if (leaf->record % RECORD_ALIGNED)
        leaf->record = 0;
}

/* ---- a walk over its entries ---- */

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

/* Entries of one piece of a leaf, page by page as far as neighbours are not wanted, too. */
static bool visit_leaf_piece(struct walk *walk, remote_addr addr, remote_addr at, size_t bytes)
{
    const unsigned entry = walk->tree->shape->entry;
    const remote_addr first = at - at % MEMORY_PAGE;
    const size_t pages = (at + bytes - first + MEMORY_PAGE - 1) / MEMORY_PAGE;
    unsigned char buf[READ_PAGES * MEMORY_PAGE];
    bool has[PIECE_PAGES + 1];

    pages_contents(walk->heap, first, has, pages);
    for (size_t i = 0; i < pages; i++) {
        bool chosen = walk->below == UINT64_MAX ||
                      table_mix((first + i * MEMORY_PAGE) ^ walk->seed) < walk->below;
        walk->pages += has[i];
        has[i] = has[i] && walk->visit && chosen;
        walk->read += has[i];
    }
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
