#include "jemalloc/extents/find.h"
#include "base/list.h"

#include <string.h>

enum {
    CANDIDATES_MAX = 4096,
    RANGES_MAX = 64,
    INDEXES_MAX = 16,
    FIRST_PAGES = 128,
    PARTS = 8,
    PART_PAGES = 64,
    RECORDS = 1024,  /* that a proof looks at */
    RECORDS_MIN = 4, /* in use, in a process that has allocated anything */
    TRUE_PER_FALSE = 8,
    NODE_ALIGNED = 64,
};

/* ---- the words that may be entries of the root ---- */

struct candidates {
    const struct heap_pages *heap;
    struct candidate {
        remote_addr at, value;
    } * list;
    size_t count, capacity;
};

static uint64_t node_bytes(const struct tree_shape *shape)
{
    return (shape->levels == 2 ? shape->entry : 8) * (UINT64_C(1) << shape->bits);
}

static bool visit_root_words(void *ctx, remote_addr at, const unsigned char *bytes, size_t len)
{
    struct candidates *candidates = ctx;
    remote_addr word;

    for (size_t i = 0; i + sizeof word <= len; i += 8) {
        memcpy(&word, bytes + i, sizeof word);
        if (!word || word % NODE_ALIGNED ||
            !pages_is_heap(candidates->heap, word, node_bytes(&tree_shapes[1])))
            continue;
        if (candidates->count == CANDIDATES_MAX ||
            !LIST_GROW(candidates->list, candidates->capacity, candidates->count))
            return false;
        candidates->list[candidates->count++] = (struct candidate){at + i, word};
    }
    return true;
}

/* ---- where to look for extents ---- */

struct ranges {
    struct memory_range list[RANGES_MAX];
    size_t count;
};

static uint64_t range_bytes(const struct memory_range *range)
{
    return range->end - range->start;
}

/* The largest mappings that may be of the heap, in descending order. */
static void choose_ranges(struct ranges *ranges, const struct modules *modules)
{
    ranges->count = 0;
    for (size_t i = 0; i < modules->vma_count; i++) {
        const struct vma *vma = &modules->vmas[i];
        struct memory_range range = {vma->start, vma->end};
        size_t at = ranges->count;
        if (!(vma->prot & MAP_WRITE) || vma->module >= 0)
            continue;
        if (at == RANGES_MAX && range_bytes(&range) <= range_bytes(&ranges->list[--at]))
            continue;
        for (; at > 0 && range_bytes(&ranges->list[at - 1]) < range_bytes(&range); at--)
            ranges->list[at] = ranges->list[at - 1];
        ranges->list[at] = range;
        ranges->count += ranges->count < RANGES_MAX;
    }
}

/* ---- the proof ---- */

struct trial {
    struct walk walk;
    struct batch *batch;
    struct trial_record {
        remote_addr page;
        struct leaf leaf;
        unsigned char bytes[RECORD_BYTES];
    } * records; /* RECORDS */
    struct batch_item *items;
    size_t count;
};

static bool add_trial_record(void *ctx, remote_addr page, const struct leaf *leaf)
{
    struct trial *trial = ctx;

    if (trial->count == RECORDS)
        return false;
    trial->records[trial->count].page = page;
    trial->records[trial->count++].leaf = *leaf;
    return true;
}

/* The start and parts of a mapping; with whole, up to a GiB of it. */
static bool walk_parts(struct walk *walk, const struct memory_range *range, bool whole)
{
    const uint64_t bytes = range_bytes(range);
    uint64_t first = whole ? UINT64_C(1) << 30 : FIRST_PAGES * MEMORY_PAGE;

    if (!walk_range(walk, range->start, range->start + (first < bytes ? first : bytes)))
        return false;
    for (uint64_t i = 1; i < PARTS && !whole && first < bytes; i++) {
        remote_addr start = range->start + bytes / PARTS / MEMORY_PAGE * MEMORY_PAGE * i;
        remote_addr end = start + PART_PAGES * MEMORY_PAGE;
        walk->last = 0;
        if (!walk_range(walk, start, end < range->end ? end : range->end))
            return false;
    }
    return true;
}

static void read_records(struct trial *trial, const struct ranges *ranges, bool whole)
{
    size_t n = 0;

    trial->count = 0;
    trial->walk.last = 0;
    for (size_t i = 0; i < ranges->count; i++)
        if (!walk_parts(&trial->walk, &ranges->list[i], whole))
            break;
    for (size_t i = 0; i < trial->count; i++) {
        struct trial_record *record = &trial->records[i];
        memset(record->bytes, 0, sizeof record->bytes);
        if (pages_is_heap(trial->walk.heap, record->leaf.record, RECORD_BYTES))
            trial->items[n++] =
                (struct batch_item){record->leaf.record, RECORD_BYTES, record->bytes};
    }
    batch_read(trial->batch, trial->items, n);
}

static void judge_records(const struct trial *trial, struct found_tree *found)
{
    struct extent extent;

    found->proven = found->refuted = 0;
    for (size_t i = 0; i < trial->count; i++) {
        const struct trial_record *record = &trial->records[i];
        enum record_verdict verdict =
            record_take(&extent, &found->rules, &record->leaf, record->page, record->bytes);
        found->refuted += verdict == RECORD_FALSE;
        found->proven += verdict >= RECORD_INNER;
    }
}

/* Tries each layout on a root, of the version first, and keeps the one that fits best. */
static void try_root(struct trial *trial, struct found_tree *best, const struct tree *tree,
                     struct version version, const struct ranges *ranges, bool whole)
{
    const struct record_layout *known = record_layout_of(version);

    for (size_t i = 0; i < 2 * (record_layout_count + 1); i++) {
        struct found_tree found = {.tree = *tree, .rules = best->rules};
        found.rules.layout = i < 2 ? known : &record_layouts[i / 2 - 1];
        found.rules.padding = i % 2 ? 0 : best->rules.classes->page;
        if (!found.rules.layout || (i % 2 && !found.rules.layout->by_pages))
            continue;
        trial->walk.tree = &found.tree;
        trial->walk.rules = &found.rules;
        read_records(trial, ranges, whole);
        judge_records(trial, &found);
        if (found.proven > best->proven)
            *best = found;
        if (!trial->count)
            return;
    }
}

/* ---- the search ---- */

struct tree_search {
    const struct heap_pages *heap;
    struct version version;
    struct candidates candidates;
    struct memory_range data;
    struct ranges ranges;
    struct trial trial;
};

static bool is_proven(const struct found_tree *found)
{
    return found->proven >= RECORDS_MIN && found->refuted <= found->proven / TRUE_PER_FALSE;
}

static void try_candidates(struct tree_search *search, struct found_tree *best,
                           const struct tree_shape *shape, uint64_t index, bool whole)
{
    const struct candidates *all = &search->candidates;
    const uint64_t root_bytes = UINT64_C(8) << shape->bits;

    for (size_t i = 0; i < all->count && !is_proven(best) && !pages_is_late(search->heap); i++) {
        const struct candidate *candidate = &all->list[i];
        const struct tree tree = {shape, candidate->at - 8 * index};
        if (candidate->at - search->data.start >= 8 * index && tree.root < search->data.end &&
            search->data.end - tree.root >= root_bytes &&
            pages_is_heap(search->heap, candidate->value, node_bytes(shape)))
            try_root(&search->trial, best, &tree, search->version, &search->ranges, whole);
    }
}

/* Each index that the larger mappings have in a root. */
static void try_shape(struct tree_search *search, struct found_tree *best,
                      const struct tree_shape *shape, bool whole)
{
    uint64_t tried[INDEXES_MAX];
    size_t count = 0;

    for (size_t i = 0; i < search->ranges.count && count < INDEXES_MAX; i++) {
        uint64_t index = tree_root_index(shape, search->ranges.list[i].start);
        size_t k = 0;
        while (k < count && tried[k] != index)
            k++;
        if (k < count)
            continue;
        tried[count++] = index;
        try_candidates(search, best, shape, index, whole);
    }
}

static void search_tree(struct tree_search *search, struct found_tree *best)
{
    for (unsigned pass = 0; pass < 2 && !is_proven(best); pass++)
        for (size_t i = 0; i < TREE_SHAPES && !is_proven(best); i++)
            try_shape(search, best, &tree_shapes[i], pass > 0);
}

enum find_end tree_find(struct found_tree *found, const struct heap_pages *heap,
                        struct batch *batch, struct version version)
{
    struct tree_search search = {.heap = heap, .version = version, .candidates.heap = heap};
    struct trial *trial = &search.trial;

    found->proven = found->refuted = 0;
    *trial = (struct trial){.batch = batch,
                            .records = malloc(RECORDS * sizeof *trial->records),
                            .items = malloc(RECORDS * sizeof *trial->items)};
    trial->walk = (struct walk){.heap = heap, .visit = add_trial_record, .below = UINT64_MAX};
    trial->walk.ctx = trial;
    if (trial->records && trial->items && pages_data_range(heap, &search.data)) {
        pages_segments(heap, true, 0, visit_root_words, &search.candidates);
        choose_ranges(&search.ranges, heap->source->modules);
        search_tree(&search, found);
    }
    free(trial->records);
    free(trial->items);
    free(search.candidates.list);
    if (!trial->records || !trial->items)
        return FIND_OUT_OF_MEMORY;
    return is_proven(found) ? FIND_PROVEN : found->proven ? FIND_REFUTED : FIND_NONE;
}
