/* The gauges of heaps made by hand: in each layout, and damaged. */
#include "check.h"
#include "extents_rig.h"
#include "jemalloc/extents/counted.h"

enum { READS_MAX = 400000 };

static struct heap_rig rig;
static struct counted counted;

/* Of each version, the layouts of its records, of its base, and of its arenas. */
struct form {
    const char *version;
    size_t record; /* of record_layouts */
    bool wide_base, muzzy_too, has_pinned, is_exact;
    unsigned stats_at;
    const char *stats;
};

static const struct form forms[] = {
    {"5.3.1-47-g1", 0, true, false, true, true, 24, "000000i0000000......00m.00"},
    {"5.3.1-0-g1", 0, true, false, false, true, 24, "000000i0000000......0m.00"},
    {"5.3.0-0-g1", 1, false, false, false, false, 24, "0000i0000000......0m.00"},
    {"5.2.1-0-g1", 2, false, true, false, false, 24, "m00......0i0000000.0"},
    {"5.1.0-0-g1", 2, false, true, false, false, 16, "m0......0i0000000"},
    {"5.0.0-0-g1", 3, false, true, false, false, 16, "m0......0i000000"},
};

static bool begin(const struct form *form, const char *version)
{
    if (!CHECK(heap_rig_begin(&rig, &record_layouts[form->record], &tree_shapes[0], version)))
        return false;
    size_t page = heap_rig_fill(&rig); /* 30 dirty pages are its last */
    page = heap_rig_large(&rig, 232, page, 7, EXTENT_MUZZY);
    page = heap_rig_large(&rig, 232, page, 11, EXTENT_RETAINED);
    if (form->has_pinned)
        heap_rig_large(&rig, 232, page, 3, EXTENT_PINNED);
    heap_rig_own(&rig, form->wide_base, form->stats_at, form->stats);
    return true;
}

static bool count(void)
{
    memset(&counted, 0, sizeof counted);
    rig.reads = 0;
    return CHECK(heap_rig_open(&rig) == FAULT_NONE) &&
           CHECK(counted_read(rig.extents, &rig.source, 0, &counted, &rig.fault) == FAULT_NONE) &&
           CHECK(rig.reads < READS_MAX);
}

static bool knows(enum ctl_gauge gauge)
{
    return counted_has(&counted, gauge);
}

static uint64_t pages_of_slabs(void)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < HEAP_BINS; i++)
        bytes += heap_rig_slab_bytes(i);
    return bytes;
}

static uint64_t objects_of_slabs(void)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < HEAP_BINS; i++)
        bytes += (heap_rig_objects(i) - (heap_rig_objects(i) + 2) / 3) * heap_rig_size(i);
    return bytes;
}

/* Four large objects of 16 to 28 KiB, each with a page more; a sampled one of 48 bytes. */
static void check_extents(const struct form *form)
{
    const uint64_t large = (16 + 20 + 24 + 28) << 10, objects = objects_of_slabs() + large;

    CHECK(knows(CTL_ALLOCATED) && knows(CTL_ACTIVE) && knows(CTL_RETAINED));
    CHECK(counted.gauges.allocated == objects + (form->is_exact ? 0 : 16384));
    CHECK(counted.in_use == objects + 48);
    CHECK(counted.has_sampling && counted.sampling == (form->is_exact ? 4096u : 16384u) - 48);
    CHECK(counted.gauges.active == pages_of_slabs() + (5 + 6 + 7 + 8 + 5) * MEMORY_PAGE);
    CHECK(counted.gauges.retained == 11 * MEMORY_PAGE);
    CHECK(counted.has_free_pages && counted.free_pages == (30 + 7) * MEMORY_PAGE);
    CHECK(counted.slabs == pages_of_slabs() - objects_of_slabs());
    CHECK(knows(CTL_PINNED) == form->has_pinned);
    CHECK(counted.gauges.pinned == (form->has_pinned ? 3 * MEMORY_PAGE : 0));
    CHECK(counted.share == 1 && !counted.unsettled);
}

static void check_own(const struct form *form)
{
    const uint64_t muzzy = form->muzzy_too ? 7 * MEMORY_PAGE : 0;

    CHECK(knows(CTL_METADATA) && knows(CTL_RESIDENT) && knows(CTL_MAPPED));
    CHECK(counted.gauges.metadata == 123456 + 4096 && counted.internal == 4096);
    CHECK(counted.gauges.mapped == 7 << 20);
    CHECK(counted.gauges.resident ==
          126976 + counted.gauges.active + 30 * MEMORY_PAGE + muzzy + counted.gauges.pinned);
}

static void test_each_release(void)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (begin(&forms[i], forms[i].version) && count()) {
            check_extents(&forms[i]);
            check_own(&forms[i]);
        }
        heap_rig_end(&rig);
    }
}

/* Muzzy pages may be resident or not; the rest tells which layout it is. */
static void test_no_version(void)
{
    for (size_t i = 1; i < ARRAY_LEN(forms); i++) {
        if (begin(&forms[i], "") && count()) {
            CHECK(!knows(CTL_RESIDENT) && !knows(CTL_PINNED));
            CHECK(!knows(CTL_METADATA) || counted.gauges.metadata == 123456 + 4096);
            CHECK(!knows(CTL_MAPPED) || counted.gauges.mapped == 7 << 20);
        }
        heap_rig_end(&rig);
    }
}

/* What is not proven is not known: one word is changed in each. */
static void test_each_doubt(void)
{
    static const struct {
        remote_addr at;
        uint64_t word;
        bool has_base;
    } doubts[] = {
        {HEAP_DATA + HEAP_ARENAS, HEAP_META + HEAP_ARENA + 8, false},
        {HEAP_DATA + HEAP_ARENAS + 8, HEAP_META + HEAP_ARENA, false}, /* arena 1 is arena 0 */
        {HEAP_META + HEAP_BASE, 1, false},
        {HEAP_META + HEAP_BLOCK, 4 << 20, false},
        {HEAP_META + HEAP_BLOCK, 0, false},
        {HEAP_META + HEAP_BLOCK + 8, HEAP_META + HEAP_BLOCK, false}, /* a list without end */
        {HEAP_META + HEAP_BASE_SUMS, 126977, false},
        {HEAP_META + HEAP_ARENA_BASE, HEAP_META + HEAP_BASE + 64, false},
        {HEAP_META + HEAP_ARENA + 24, 1, true},
        {HEAP_META + HEAP_ARENA + 24 + 8 * 19, 0, true}, /* nothing mapped */
        {HEAP_META + HEAP_ARENA + 24 + 8 * 19, 5000, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(doubts); i++) {
        if (begin(&forms[2], forms[2].version)) {
            heap_rig_put(&rig, doubts[i].at, doubts[i].word);
            if (count()) {
                check_extents(&forms[2]);
                CHECK(knows(CTL_RESIDENT) == doubts[i].has_base);
                CHECK(!knows(CTL_METADATA) && !knows(CTL_MAPPED) && !counted.internal);
            }
        }
        heap_rig_end(&rig);
    }
}

/* Free pages of the allocator of huge pages have no extent. */
static void test_huge_pages(void)
{
    if (begin(&forms[1], forms[1].version)) {
        const remote_addr record = heap_rig_record(HEAP_BINS);
        heap_rig_put(&rig, record, heap_rig_get(&rig, record) | 1 << 14);
        if (count())
            CHECK(!knows(CTL_RESIDENT) && !counted.has_free_pages && knows(CTL_MAPPED));
    }
    heap_rig_end(&rig);
}

int main(void)
{
    test_each_release();
    test_no_version();
    test_each_doubt();
    test_huge_pages();
    return check_result();
}
