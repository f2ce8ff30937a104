/*
 * The records of a heap that are damaged, or that change while they are read. The input is a
 * layout, a shape of the tree, and edits: of which word, when (0: before the records are found,
 * 1: after it, else before that read of memory), and to what.
 */
#include "fuzz.h"
#include "jemalloc/extents/counted.h"
#include "tests/unit/extents_rig.h"

enum { EDITS_MAX = 32, EDIT_BYTES = 12, READS_MAX = 200000 };

struct edit {
    uint8_t kind, when;
    uint16_t word;
    uint64_t value;
};

static struct heap_rig rig;
static struct edit edits[EDITS_MAX];
static size_t edit_count, pages;

/* A word of bin_infos, around the root's entry, of a node, of the leaf, of the records,
 * or of what jemalloc has for itself. */
static remote_addr word_at(uint64_t nth)
{
    const uint64_t records = rig.records * RECORD_BYTES / 8, entries = pages * rig.shape->entry / 8;
    const uint64_t root = HEAP_META >> (12 + rig.shape->bits * (rig.shape->levels - 1));

    const remote_addr own[] = {
        HEAP_DATA + HEAP_ARENAS + nth / 32 % 8 * 8, HEAP_META + HEAP_BLOCK + nth / 32 % 64 * 8,
        HEAP_META + HEAP_ARENA + nth / 32 % 32 * 8,
        nth & 32 ? HEAP_META + HEAP_ARENA_BASE : HEAP_META + HEAP_BASE_SUMS + nth / 64 % 8 * 8};

    switch (nth % 8) {
    case 0:
        return HEAP_DATA + HEAP_INFOS + nth / 8 % (HEAP_BINS * 5) * 8;
    case 1:
        return HEAP_DATA + HEAP_ROOT + 8 * (root - 4 + nth / 8 % 8);
    case 2:
        return HEAP_META + HEAP_NODE + nth / 8 % (1u << rig.shape->bits) * 8;
    case 3:
    case 4:
        return heap_rig_entry(&rig, 0) + nth / 8 % entries * 8;
    case 5:
        return own[nth / 8 % 4];
    default:
        return heap_rig_record(0) + nth / 8 % records * 8;
    }
}

static uint64_t edited(const struct edit *edit, uint64_t former)
{
    switch (edit->kind % 5) {
    case 0:
        return edit->value;
    case 1:
        return word_at(edit->value);
    case 2:
        return heap_rig_get(&rig, word_at(edit->value));
    case 3:
        return former + edit->value - (UINT64_C(1) << 63);
    default:
        return former ^ UINT64_C(1) << (edit->value % 64);
    }
}

static void apply_edits(size_t when)
{
    for (size_t i = 0; i < edit_count; i++) {
        const remote_addr at = word_at(edits[i].word);
        if (edits[i].when == when)
            heap_rig_put(&rig, at, edited(&edits[i], heap_rig_get(&rig, at)));
    }
}

static void edit_before_read(struct heap_rig *changed, remote_addr addr, size_t len)
{
    (void)addr;
    (void)len;
    if (changed->reads < UINT8_MAX)
        apply_edits(changed->reads + 1);
    expect(changed->reads < READS_MAX);
}

static void take_edits(const uint8_t *data, size_t size)
{
    edit_count = 0;
    for (; size >= EDIT_BYTES && edit_count < EDITS_MAX; size -= EDIT_BYTES, data += EDIT_BYTES) {
        struct edit *edit = &edits[edit_count++];
        edit->kind = data[0];
        edit->when = data[1];
        memcpy(&edit->word, data + 2, sizeof edit->word);
        memcpy(&edit->value, data + 4, sizeof edit->value);
    }
}

/* What a caller relies on. */
static bool check_extent(void *ctx, const struct extent *extent)
{
    uint32_t in_use = 0;

    expect(extent->objects && extent->objects <= EXTENT_OBJECTS_MAX && extent->size);
    expect(extent->used <= extent->objects && extent->class < CLASSES_MAX);
    expect(extent->start + extent->bytes > extent->start);
    for (uint32_t i = 0; i < extent->objects; i++)
        in_use += extent_in_use(extent, i);
    expect(in_use == extent->used);
    expect(!extent->slab || extent->objects * extent->size <= extent->bytes);
    return ++*(size_t *)ctx < HEAP_PAGE_COUNT * 8;
}

static void read_heap(void)
{
    struct counted counted;
    struct extent extent;
    size_t count = 0;

    extents_each(rig.extents, check_extent, &count, &rig.pass, &rig.fault);
    expect(count < HEAP_PAGE_COUNT * 8);
    if (counted_read(rig.extents, &rig.source, 0, &counted, &rig.fault) == FAULT_NONE) {
        expect(counted_has(&counted, CTL_MAPPED) == counted_has(&counted, CTL_METADATA));
        expect(counted_has(&counted, CTL_ACTIVE) && !counted_has(&counted, CTL_PINNED));
        expect(counted.gauges.active >= counted.slabs);
    }
    for (size_t page = 0; page < pages; page += 7)
        if (extents_at(rig.extents, heap_rig_page(page), &extent))
            check_extent(&count, &extent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return -1;
    expect(heap_rig_begin(&rig, &record_layouts[data[0] % record_layout_count],
                          &tree_shapes[data[1] % TREE_SHAPES], data[0] & 128 ? "" : "5.3.0-0-g1"));
    pages = heap_rig_fill(&rig);
    heap_rig_own(&rig, false, 24, "0000i0000000......0m.0");
    take_edits(data + 2, size - 2);
    rig.before = edit_before_read;
    apply_edits(0);
    if (heap_rig_open(&rig) == FAULT_NONE) {
        rig.reads = 0;
        apply_edits(1);
        read_heap();
    }
    heap_rig_end(&rig);
    return 0;
}
