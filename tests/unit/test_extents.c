/* The live objects of heaps made by hand: in each layout, damaged, changing, none. */
#include "check.h"
#include "extents_rig.h"

static struct heap_rig rig;
static const char *const versions[] = {"5.3.1-0-g1", "5.3.0-0-g1", "5.2.1-0-g1", "5.0.0-0-g1"};

struct seen {
    size_t slabs, large, objects, free_in_use;
    remote_addr last;
    bool ordered, first_free;
};

static bool see(void *ctx, const struct extent *extent)
{
    struct seen *seen = ctx;
    uint32_t in_use = 0;

    seen->ordered &= extent->start > seen->last;
    seen->last = extent->start;
    seen->slabs += extent->slab;
    seen->large += !extent->slab;
    for (uint32_t i = 0; i < extent->objects; i++)
        in_use += extent_in_use(extent, i);
    seen->objects += in_use;
    seen->free_in_use += in_use != extent->used;
    seen->first_free &= !extent->slab || !extent_in_use(extent, 0);
    return true;
}

static fault_code see_all(struct seen *seen)
{
    *seen = (struct seen){.ordered = true, .first_free = true};
    rig.pass = (struct extents_pass){0};
    return extents_each(rig.extents, see, seen, &rig.pass, &rig.fault);
}

static size_t slab_objects_in_use(void)
{
    size_t sum = 0;

    for (unsigned i = 0; i < HEAP_BINS; i++)
        sum += heap_rig_objects(i) - (heap_rig_objects(i) + 2) / 3;
    return sum;
}

static void check_whole(void)
{
    struct seen seen;

    CHECK(see_all(&seen) == FAULT_NONE);
    CHECK(seen.slabs == HEAP_BINS && seen.large == 5);
    CHECK(seen.objects == slab_objects_in_use() + 5);
    CHECK(seen.ordered && seen.first_free && !seen.free_in_use);
    CHECK(rig.pass.extents == HEAP_BINS + 5 && !rig.pass.unsettled && rig.pass.share == 1);
}

/* Each page of a large object leads to it, and no page behind the heap leads to anything. */
static void check_addresses(size_t pages)
{
    struct extent extent;

    CHECK(extents_at(rig.extents, heap_rig_page(0) + 100, &extent) && extent.slab &&
          extent.size == 8 && extent.start == heap_rig_page(0));
    CHECK(extents_at(rig.extents, heap_rig_page(pages - 30 - 5 - 4), &extent) && !extent.slab &&
          extent.size == 28672 && extent.class == HEAP_BINS + 3);
    CHECK(extents_at(rig.extents, heap_rig_page(pages - 30 - 3), &extent) && extent.size == 48);
    CHECK(!extents_at(rig.extents, heap_rig_page(pages - 20), &extent));
    CHECK(!extents_at(rig.extents, heap_rig_page(pages + 2), &extent));
    CHECK(!extents_at(rig.extents, 0, &extent) && !extents_at(rig.extents, UINT64_MAX, &extent));
}

static void check_totals(void)
{
    static struct extent_totals totals;

    CHECK(totals_read(rig.extents, 0, &totals, &rig.fault) == FAULT_NONE);
    CHECK(totals.classes.bins == HEAP_BINS && totals.classes.count == 232);
    CHECK(totals.slab[3].slabs == 1 && totals.slab[3].nonfull == 1 &&
          totals.slab[3].objects == 256 - 86);
    CHECK(totals.large[3].objects == 1 && totals.large[3].bytes == 48);
    CHECK(totals.large[HEAP_BINS + 1].objects == 1 && totals.large[HEAP_BINS + 1].bytes == 20480);
    CHECK(totals.classes.list[231].size == UINT64_C(7) << 60);
}

static void test_class_totals(void)
{
    static struct extent_totals totals = {.classes = {.list = {{48, 12288, 256}, {20480, 0, 0}}},
                                          .slab = {{.slabs = 2, .objects = 300}},
                                          .large = {{1, 48}, {2, 36864}}};
    struct class_total small = totals_of_class(&totals, 0), large = totals_of_class(&totals, 1);

    CHECK(small.objects == 301 && small.bytes == 301 * 48 && small.free == 212 * 48);
    CHECK(large.objects == 2 && large.bytes == 36864 && large.free == 0);
    totals.slab[0].slabs = 1; /* contradicts its objects */
    CHECK(totals_of_class(&totals, 0).free == 0);
    CHECK(totals_estimate(&totals, 7) == 7); /* nothing was read */
    totals.pass.share = 1;
    CHECK(totals_estimate(&totals, UINT64_MAX) == UINT64_MAX);
    totals.pass.share = 0.3;
    CHECK(totals_estimate(&totals, 2) == 7);
}

static bool begin(size_t layout, size_t shape, const char *version)
{
    return CHECK(heap_rig_begin(&rig, &record_layouts[layout], &tree_shapes[shape], version));
}

/* By the version, and by the data if the version is wrong or none. */
static void test_each_layout(void)
{
    const char *const others[] = {NULL, "", "5.1.0-0-g1", "5.3.1-0-g1"};

    for (size_t i = 0; i < record_layout_count; i++)
        for (size_t shape = 0; shape < TREE_SHAPES; shape++)
            for (size_t k = 0; k < ARRAY_LEN(others); k++) {
                if (!begin(i, shape, others[k] ? others[k] : versions[i]))
                    continue;
                size_t pages = heap_rig_fill(&rig);
                if (CHECK(heap_rig_open(&rig) == FAULT_NONE)) {
                    check_whole();
                    check_addresses(pages);
                    check_totals();
                }
                heap_rig_end(&rig);
            }
}

static void check_refused(enum unreadable_reason reason)
{
    CHECK(heap_rig_open(&rig) == FAULT_UNREADABLE && rig.fault.reason == (int)reason);
    CHECK(rig.extents == NULL && rig.fault.what[0]);
    heap_rig_end(&rig);
}

static void test_refused(void)
{
    if (begin(1, 0, "4.5.0-0-g1"))
        check_refused(UNREADABLE_VERSION);
    if (begin(1, 0, versions[1])) /* a heap without an extent */
        check_refused(UNREADABLE_TABLE);
    if (begin(1, 0, versions[1])) { /* other classes than any build has */
        heap_rig_fill(&rig);
        heap_rig_put(&rig, HEAP_DATA + HEAP_INFOS + 40 * 30 + 24, 7);
        check_refused(UNREADABLE_TABLE);
    }
    if (begin(1, 0, versions[1])) { /* no root */
        heap_rig_fill(&rig);
        heap_rig_put(&rig, HEAP_DATA + HEAP_ROOT + 8 * (HEAP_META >> 30), 0);
        check_refused(UNREADABLE_TABLE);
    }
}

/* One record in eight may contradict, as if it changed; more than that is another layout. */
static void test_share_that_contradicts(void)
{
    for (size_t wrong = 4; wrong <= 6; wrong += 2) {
        if (!begin(1, 1, versions[1]))
            return;
        heap_rig_fill(&rig);
        for (size_t i = 0; i < wrong; i++)
            heap_rig_put(&rig, heap_rig_record(i) + 8, heap_rig_page(900 + i));
        if (wrong == 6) {
            check_refused(UNREADABLE_PROOF);
            continue;
        }
        struct seen seen;
        CHECK(heap_rig_open(&rig) == FAULT_NONE && see_all(&seen) == FAULT_NONE);
        CHECK(rig.pass.unsettled == wrong && rig.pass.extents == HEAP_BINS + 5 - wrong);
        heap_rig_end(&rig);
    }
}

/* Each of these makes one extent of the heap contradict itself or the tree: it is left out. */
static void test_each_contradiction(void)
{
    struct seen seen;
    static const struct {
        size_t record, at;
        uint64_t flip;
    } damages[] = {
        {3, 64, 2},                                 /* one free object less than counted */
        {12, 64, UINT64_C(1) << 63},                /* a free object behind the last */
        {3, 16, 4096},                              /* a slab of another size */
        {3, 8, 64},                                 /* a slab that starts within a page */
        {3, 0, UINT64_C(1) << 28},                  /* another count of free objects */
        {3, 0, UINT64_C(1) << 20},                  /* another class */
        {3, 0, UINT64_C(1) << 12},                  /* no slab */
        {3, 0, 0xffe},                              /* an arena that cannot be */
        {HEAP_BINS, 16, UINT64_C(1) << 20},         /* larger than its class by a MiB */
        {HEAP_BINS, 16, UINT64_C(0xfffffff) << 36}, /* its end wraps */
        {HEAP_BINS, 8, UINT64_C(1) << 30},          /* not where its page is */
    };

    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        remote_addr at = heap_rig_record(damages[i].record) + damages[i].at;
        if (!begin(1, 0, versions[1]))
            return;
        heap_rig_fill(&rig);
        heap_rig_put(&rig, at, heap_rig_get(&rig, at) ^ damages[i].flip);
        CHECK(heap_rig_open(&rig) == FAULT_NONE && see_all(&seen) == FAULT_NONE);
        CHECK(rig.pass.extents == HEAP_BINS + 4);
        if (!CHECK(rig.pass.unsettled >= 1))
            fprintf(stderr, "damage %zu\n", i);
        heap_rig_end(&rig);
    }
}

/* --- a heap that changes --- */

static remote_addr changed_at;
static uint64_t changed_to;

static void change_once(struct heap_rig *changed, remote_addr addr, size_t len)
{
    if (changed_at && changed_at >= addr && changed_at - addr < len) {
        heap_rig_put(changed, changed_at, changed_to);
        changed_at = 0;
    }
}

/* What contradicts once is read again. */
static void test_change_during_read(void)
{
    const remote_addr at = heap_rig_record(3) + 64;
    struct seen seen;

    if (!begin(1, 0, versions[1]))
        return;
    heap_rig_fill(&rig);
    CHECK(heap_rig_open(&rig) == FAULT_NONE);
    uint64_t groups = heap_rig_get(&rig, at);
    heap_rig_put(&rig, at, groups & (groups - 1));
    rig.before = change_once;
    changed_at = at;
    changed_to = groups & (groups - 1);
    CHECK(see_all(&seen) == FAULT_NONE && rig.pass.unsettled == 1);
    heap_rig_put(&rig, at, groups);
    check_whole();
    heap_rig_end(&rig);
}

static size_t grown_to;

static void grow_with_each_read(struct heap_rig *grown, remote_addr addr, size_t len)
{
    if (addr <= heap_rig_entry(grown, 0) && heap_rig_entry(grown, 0) < addr + len &&
        grown_to + 64 < HEAP_PAGE_COUNT)
        grown_to = heap_rig_slab(grown, 0, heap_rig_slab(grown, 1, grown_to));
}

/* More and more records fit each layout that is tried: the first one, that of the version, stays.
 */
static void test_growing_heap(void)
{
    struct seen seen;

    if (!begin(0, 0, versions[0]))
        return;
    grown_to = heap_rig_slab(&rig, 3, heap_rig_slab(&rig, 2, 0));
    grown_to = heap_rig_slab(&rig, 5, heap_rig_slab(&rig, 4, grown_to));
    rig.before = grow_with_each_read;
    CHECK(heap_rig_open(&rig) == FAULT_NONE);
    rig.before = NULL;
    heap_rig_large(&rig, HEAP_BINS + 10, grown_to, 22, 0); /* 84 KiB, of a class of 96 KiB */
    CHECK(see_all(&seen) == FAULT_NONE && seen.large == 1 && !rig.pass.unsettled);
    heap_rig_end(&rig);
}

static void test_mostly_changing(void)
{
    struct seen seen;

    if (!begin(1, 0, versions[1]))
        return;
    heap_rig_fill(&rig);
    CHECK(heap_rig_open(&rig) == FAULT_NONE);
    for (size_t i = 0; i < HEAP_BINS; i++)
        heap_rig_put(&rig, heap_rig_record(i) + 8, 0);
    CHECK(see_all(&seen) == FAULT_UNREADABLE && rig.fault.reason == UNREADABLE_CHANGING);
    CHECK(!strchr(rig.fault.what, '%'));
    heap_rig_end(&rig);
}

/* --- limits --- */

static bool stop(void *ctx, const struct extent *extent)
{
    (void)extent;
    return ++*(size_t *)ctx < 3;
}

static void test_ends_early(void)
{
    struct deadline passed = {.at = 1};
    size_t count = 0;
    struct seen seen;

    if (!begin(2, 1, versions[2]))
        return;
    heap_rig_fill(&rig);
    CHECK(heap_rig_open(&rig) == FAULT_NONE);
    CHECK(extents_each(rig.extents, stop, &count, &rig.pass, &rig.fault) == FAULT_NONE);
    CHECK(count == 3);
    extents_close(rig.extents);
    rig.source.deadline = &passed;
    CHECK(heap_rig_open(&rig) == FAULT_TOO_LATE && !rig.extents);
    passed.at = UINT64_MAX;
    CHECK(heap_rig_open(&rig) == FAULT_NONE);
    passed.at = 1;
    CHECK(see_all(&seen) == FAULT_TOO_LATE);
    heap_rig_end(&rig);
}

/* A page of the tree is for 1 MiB in this shape: 8 of them are mapped. */
static void test_share(void)
{
    size_t read = 0;
    struct seen seen;

    if (!begin(1, 1, versions[1]))
        return;
    heap_rig_fill(&rig);
    CHECK(heap_rig_open(&rig) == FAULT_NONE);
    for (int i = 0; i < 64; i++) {
        seen = (struct seen){.ordered = true, .first_free = true};
        rig.pass = (struct extents_pass){.limit = 4 << 20};
        CHECK(extents_each(rig.extents, see, &seen, &rig.pass, &rig.fault) == FAULT_NONE);
        CHECK(rig.pass.share >= 0 && rig.pass.share <= 1 && !rig.pass.unsettled);
        CHECK(rig.pass.extents <= HEAP_BINS + 5);
        read += (size_t)(rig.pass.share * 8 + 0.5);
    }
    CHECK(read > 64 * 2 && read < 64 * 6);
    heap_rig_end(&rig);
}

static size_t share_in_parts(uint64_t limit, struct extents_parts *parts, struct seen *seen)
{
    *seen = (struct seen){.ordered = true};
    rig.pass = (struct extents_pass){.limit = limit, .parts = parts};
    CHECK(extents_each(rig.extents, see, seen, &rig.pass, &rig.fault) == FAULT_NONE);
    return (size_t)(rig.pass.share * 8 + 0.5);
}

/* Parts are chosen once: another limit, as more memory would have, chooses no others. */
static void test_same_parts(void)
{
    size_t sum = 0, others = 0;

    if (!begin(1, 1, versions[1]))
        return;
    heap_rig_fill(&rig);
    CHECK(heap_rig_open(&rig) == FAULT_NONE);
    for (int i = 0; i < 64; i++) {
        struct extents_parts parts = {0};
        struct seen first, again;
        size_t share = share_in_parts(4 << 20, &parts, &first);
        CHECK(parts.below && share_in_parts(2 << 20, &parts, &again) == share);
        CHECK(first.slabs == again.slabs && first.last == again.last);
        sum += share;
        others += share_in_parts(4 << 20, NULL, &again) != share || again.last != first.last;
    }
    CHECK(sum > 64 * 2 && sum < 64 * 6 && others > 16);
    heap_rig_end(&rig);
}

int main(void)
{
    test_class_totals();
    test_each_layout();
    test_refused();
    test_share_that_contradicts();
    test_each_contradiction();
    test_change_during_read();
    test_growing_heap();
    test_mostly_changing();
    test_ends_early();
    test_share();
    test_same_parts();
    return check_result();
}
