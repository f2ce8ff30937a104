#include "jemalloc/extents/record.h"
#include "base/util.h"

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
        if (version.number > record_layouts[i].first ||
            (version.number == record_layouts[i].first &&
             version.commits >= record_layouts[i].commits))
            return &record_layouts[i];
    return NULL;
}

static uint64_t word_of(const unsigned char *bytes, size_t at)
{
    uint64_t word;

    memcpy(&word, bytes + at, sizeof word);
    return word;
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
        uint64_t is_free = here ? word_of(bytes, BITMAP_AT + i * 8) : 0;
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
    const uint64_t bits = word_of(bytes, 0), mask = rules->classes->page - 1;
    const unsigned state = field_of(bits, rules->layout->state_shift, rules->layout->state_bits);
    remote_addr first;

    memset(extent, 0, sizeof *extent);
    extent->arena = field_of(bits, 0, ARENA_BITS);
    extent->slab = field_of(bits, SLAB_SHIFT, 1);
    extent->is_huge_page = rules->layout->leaf_state_shift && field_of(bits, HUGE_PAGE_SHIFT, 1);
    extent->state = state < EXTENT_STATES ? (enum extent_state)state : EXTENT_STATES;
    extent->start = word_of(bytes, ADDRESS_AT);
    extent->bytes = word_of(bytes, SIZE_AT) & ~mask;
    first = extent->start & ~mask;
    return extent->arena < ARENAS_END && page >= first && page - first < extent->bytes &&
           first + extent->bytes > first;
}

static bool is_free(const struct record_rules *rules, uint64_t bits)
{
    return field_of(bits, rules->layout->state_shift, rules->layout->state_bits) != EXTENT_ACTIVE ||
           field_of(bits, rules->layout->class_shift, CLASS_BITS) == rules->classes->count;
}

enum record_verdict record_take(struct extent *extent, const struct record_rules *rules,
                                const struct leaf *leaf, remote_addr page,
                                const unsigned char bytes[RECORD_BYTES])
{
    const unsigned shift = rules->layout->class_shift;
    const struct extent_class *class = &rules->classes->list[leaf->class];
    const uint64_t bits = word_of(bytes, 0);
    bool valid;

    if (!record_take_range(extent, rules, page, bytes))
        return RECORD_FALSE;
    if (is_free(rules, bits))
        return RECORD_FREE;
    if (extent->slab != leaf->slab || field_of(bits, shift, CLASS_BITS) != leaf->class)
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
