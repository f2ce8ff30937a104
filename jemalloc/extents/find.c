#include "jemalloc/extents/find.h"

#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES_MAX = 1024,
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

/* ---- the words that may be entries of the root ---- */

/* An index that a mapping of the heap has in a root of a shape. */
struct root_index {
    const struct tree_shape *shape;
    uint64_t index;
    bool before, after; /* the heap has the index before, or after it, as well */
};

struct candidates {
    const struct heap_pages *heap;
    struct memory_range data;
    struct root_index indexes[TREE_SHAPES * INDEXES_MAX];
    size_t index_count;
    struct tree list[CANDIDATES_MAX];
    size_t count;
};

static bool has_index(const struct candidates *all, const struct tree_shape *shape, uint64_t index)
{
    const struct modules *modules = all->heap->source->modules;

    for (size_t i = 0; i < modules->vma_count; i++) {
        const struct vma *vma = &modules->vmas[i];
        if (vma->prot & MAP_WRITE && vma->module < 0 && tree_index(shape, vma->start, 0) <= index &&
            tree_index(shape, vma->end - 1, 0) >= index)
            return true;
    }
    return false;
}

static void add_indexes(struct candidates *all, const struct ranges *ranges,
                        const struct tree_shape *shape)
{
    const size_t first = all->index_count;

    for (size_t i = 0; i < ranges->count && all->index_count - first < INDEXES_MAX; i++) {
        uint64_t index = tree_index(shape, ranges->list[i].start, 0);
        size_t k = first;
        while (k < all->index_count && all->indexes[k].index != index)
            k++;
        if (k == all->index_count)
            all->indexes[all->index_count++] = (struct root_index){
                shape, index, has_index(all, shape, index - 1), has_index(all, shape, index + 1)};
    }
}

/* Words of an array of pointers, say, have neighbours that no entry of a root could have. */
static bool may_be_entry(const struct candidates *all, const struct root_index *index,
                         remote_addr at, const uint64_t words[3])
{
    const struct tree_shape *shape = index->shape;
    const uint64_t root_bytes = UINT64_C(8) << shape->bits,
                   next_bytes = (shape->levels == 2 ? shape->entry : UINT64_C(8)) << shape->bits;

    return (!words[0] || index->before) && (!words[2] || index->after) &&
           at - all->data.start >= 8 * index->index &&
           all->data.end - (at - 8 * index->index) >= root_bytes &&
           pages_is_heap(all->heap, words[1], next_bytes);
}

static bool add_candidates(struct candidates *all, remote_addr at, const uint64_t words[3])
{
    for (size_t i = 0; i < all->index_count; i++) {
        const struct root_index *index = &all->indexes[i];
        if (!may_be_entry(all, index, at, words))
            continue;
        all->list[all->count++] = (struct tree){index->shape, at - 8 * index->index};
        if (all->count == CANDIDATES_MAX)
            return false;
    }
    return true;
}

static bool visit_root_words(void *ctx, remote_addr at, const unsigned char *bytes, size_t len)
{
    struct candidates *all = ctx;
    uint64_t words[3];

    for (size_t i = 0; i + sizeof *words <= len; i += sizeof *words) {
        bool first = i == 0, last = i + 2 * sizeof *words > len;
        memset(words, 0, sizeof words);
        memcpy(words + first, bytes + i - 8 * !first, 8u * (3u - first - last));
        if (words[1] && words[1] % NODE_ALIGNED == 0 && !add_candidates(all, at + i, words))
            return false;
    }
    return true;
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
    struct found_tree tried; /* a root with a layout */
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
    remote_addr end;

    if (!tree_entry(walk->tree, walk->heap, range->start, &end) && end >= range->end)
        return true;
    if (!walk_range(walk, range->start, range->start + (first < bytes ? first : bytes)))
        return false;
    for (uint64_t i = 1; i < PARTS && !whole && first < bytes; i++) {
        remote_addr start = range->start + bytes / PARTS / MEMORY_PAGE * MEMORY_PAGE * i;
        end = start + PART_PAGES * MEMORY_PAGE;
        walk->last = 0;
        if (!walk_range(walk, start, end < range->end ? end : range->end))
            return false;
    }
    return true;
}

static void read_records(struct trial *trial, const struct ranges *ranges, bool whole)
{
    const struct heap_pages *heap = trial->walk.heap;
    size_t n = 0;

    trial->count = 0;
    trial->walk.last = 0;
    for (size_t i = 0; i < ranges->count; i++)
        if (!walk_parts(&trial->walk, &ranges->list[i], whole))
            break;
    for (size_t i = 0; i < trial->count; i++) {
        struct trial_record *record = &trial->records[i];
        const remote_addr at = record->leaf.record, page = at - at % MEMORY_PAGE;
        const size_t pages = (at - page + RECORD_BYTES - 1) / MEMORY_PAGE + 1;
        bool has[2];
        memset(record->bytes, 0, sizeof record->bytes);
        /* What a root that is none leads to may be any memory: empty pages are not touched. */
        if (pages_is_heap(heap, at, RECORD_BYTES) &&
            pages_contents(heap, page, has, pages) == pages)
            trial->items[n++] = (struct batch_item){at, RECORD_BYTES, record->bytes};
    }
    batch_read(trial->batch, trial->items, n);
}

/*
 * Tries each layout on a root, of the version first, and keeps the one that fits best. Those that
 * read the tree alike are compared on the same records: a heap that grows has more each time.
 */
static void try_root(struct trial *trial, struct found_tree *best, const struct tree *tree,
                     struct version version, const struct ranges *ranges, bool whole)
{
    const struct record_layout *known = record_layout_of(version), *read = NULL;
    struct found_tree *found = &trial->tried;
    struct extent extent;

    for (size_t i = 0; i < 2 * (record_layout_count + 1); i++) {
        *found = (struct found_tree){.tree = *tree, .rules = best->rules};
        found->rules.layout = i < 2 ? known : &record_layouts[i / 2 - 1];
        found->rules.padding = i % 2 ? 0 : best->rules.classes->page;
        if (!found->rules.layout || (i % 2 && !found->rules.layout->by_pages))
            continue;
        trial->walk.tree = &found->tree;
        trial->walk.rules = &found->rules;
        if (!read || read->leaf_state_shift != found->rules.layout->leaf_state_shift)
            read_records(trial, ranges, whole);
        read = found->rules.layout;
        for (size_t k = 0; k < trial->count; k++) {
            const struct trial_record *record = &trial->records[k];
            enum record_verdict verdict =
                record_take(&extent, &found->rules, &record->leaf, record->page, record->bytes);
            found->refuted += verdict == RECORD_FALSE;
            found->proven += verdict >= RECORD_INNER;
        }
        if (found->proven > best->proven)
            *best = *found;
        if (!trial->count)
            return;
    }
}

/* ---- the search ---- */

struct tree_search {
    struct candidates candidates;
    struct ranges ranges;
    struct trial trial;
};

static bool is_proven(const struct found_tree *found)
{
    return found->proven >= RECORDS_MIN && found->refuted <= found->proven / TRUE_PER_FALSE;
}

static void search_data(struct tree_search *search, struct version version, struct found_tree *best)
{
    struct candidates *candidates = &search->candidates;
    const struct heap_pages *heap = candidates->heap;

    if (!pages_data_range(heap, &candidates->data))
        return;
    choose_ranges(&search->ranges, heap->source->modules);
    for (size_t i = 0; i < TREE_SHAPES; i++)
        add_indexes(candidates, &search->ranges, &tree_shapes[i]);
    pages_segments(heap, true, 16, visit_root_words, candidates);
    /* At first only parts of each mapping are looked at. */
    for (unsigned pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < candidates->count && !pages_is_late(heap); i++) {
            try_root(&search->trial, best, &candidates->list[i], version, &search->ranges,
                     pass > 0);
            if (is_proven(best))
                return;
        }
}

enum find_end tree_find(struct found_tree *found, const struct heap_pages *heap,
                        struct batch *batch, struct version version)
{
    AUTO_FREE struct tree_search *search = calloc(1, sizeof *search);
    AUTO_FREE struct trial_record *records = malloc(RECORDS * sizeof *records);
    AUTO_FREE struct batch_item *items = malloc(RECORDS * sizeof *items);

    found->proven = found->refuted = 0;
    if (!search || !records || !items)
        return FIND_OUT_OF_MEMORY;
    search->candidates.heap = heap;
    search->trial = (struct trial){.batch = batch, .records = records, .items = items};
    search->trial.walk = (struct walk){
        .heap = heap, .visit = add_trial_record, .ctx = &search->trial, .below = UINT64_MAX};
    search_data(search, version, found);
    return is_proven(found) ? FIND_PROVEN : found->proven ? FIND_REFUTED : FIND_NONE;
}
