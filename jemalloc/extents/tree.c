#include "jemalloc/extents/tree.h"

#include <string.h>

enum { PAGE_BITS = 12, ADDRESS_BITS = 48, NODE_ALIGNED = 64, RECORD_ALIGNED = 64, STATE_BITS = 3 };

const struct tree_shape tree_shapes[TREE_SHAPES] = {
    {.levels = 2, .bits = 18, .entry = 8},
    {.levels = 3, .bits = 15, .entry = 16},
};

static unsigned shift_at(const struct tree_shape *shape, unsigned level)
{
    return PAGE_BITS + shape->bits * (shape->levels - 1 - level);
}

static uint64_t index_at(const struct tree_shape *shape, remote_addr addr, unsigned level)
{
    return addr >> shift_at(shape, level) & ((UINT64_C(1) << shape->bits) - 1);
}

uint64_t tree_root_index(const struct tree_shape *shape, remote_addr addr)
{
    return index_at(shape, addr, 0);
}

static bool read_node_word(const struct heap_pages *heap, remote_addr at, uint64_t *word)
{
    bool has;

    return residence_of(&heap->residence, at - at % MEMORY_PAGE, &has, 1) &&
           memory_read(heap->source->memory, at, word, sizeof *word);
}

remote_addr tree_entry(const struct tree *tree, const struct heap_pages *heap, remote_addr addr,
                       remote_addr *end)
{
    const struct tree_shape *shape = tree->shape;
    remote_addr at = tree->root;

    for (unsigned level = 0; level + 1 < shape->levels; level++) {
        bool last = level + 2 == shape->levels;
        *end = ((addr >> shift_at(shape, level)) + 1) << shift_at(shape, level);
        uint64_t bytes = (last ? shape->entry : 8) * (UINT64_C(1) << shape->bits);
        if (!read_node_word(heap, at + 8 * index_at(shape, addr, level), &at) || !at ||
            at % NODE_ALIGNED || !pages_is_heap(heap, at, bytes))
            return 0;
    }
    return at + shape->entry * index_at(shape, addr, shape->levels - 1);
}

static void take_compact(struct leaf *leaf, const struct record_layout *layout,
                         const unsigned char *bytes)
{
    uint64_t bits;

    memcpy(&bits, bytes, sizeof bits);
    leaf->class = (unsigned)(bits >> ADDRESS_BITS);
    leaf->slab = bits & 1;
    leaf->state = layout->leaf_state_shift
                      ? (unsigned)(bits >> layout->leaf_state_shift & ((1 << STATE_BITS) - 1))
                      : 0;
    leaf->record = bits & ((UINT64_C(1) << ADDRESS_BITS) - 1) & ~(remote_addr)(RECORD_ALIGNED - 1);
}

/* A pointer; then the class and a byte, or since 5.2.1-784 all in one word. */
static void take_wide(struct leaf *leaf, const struct record_layout *layout,
                      const unsigned char *bytes)
{
    uint32_t first, second;

    memcpy(&leaf->record, bytes, 8);
    memcpy(&first, bytes + 8, 4);
    memcpy(&second, bytes + 12, 4);
    leaf->class = first;
    leaf->slab = second & 1;
    leaf->state = 0;
    if (layout->leaf_state_shift) {
        leaf->slab = first & 1;
        leaf->state = first >> layout->leaf_state_shift & ((1 << STATE_BITS) - 1);
        leaf->class = first >> (layout->leaf_state_shift + STATE_BITS);
    }
    if (leaf->record % RECORD_ALIGNED)
        leaf->record = 0;
}

void tree_take_leaf(struct leaf *leaf, const struct tree_shape *shape,
                    const struct record_layout *layout, const unsigned char *bytes)
{
    if (shape->entry == 8)
        take_compact(leaf, layout, bytes);
    else
        take_wide(leaf, layout, bytes);
}
